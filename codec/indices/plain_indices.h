// SPDX-License-Identifier: MIT
/// Plain indices: as uint32, the way out of codecs whose code would be longer.
#pragma once

#include <cstdint>
#include <span>

#include "codec/code_bytes.h"
#include "core/buffer.h"

namespace dragonn::codec {

/// Writes indices as they are. Returns the first byte behind them.
std::byte* write_plain(std::span<const std::uint32_t> indices, std::byte* to);
/// Reads `count` of them. @throws DataError if there are fewer, or if they do not ascend.
void read_plain(CodeReader& reader, std::uint32_t count, Buffer<std::uint32_t>& indices);
/// Checks a list of at least one index. @throws DataError if it does not ascend, or ends with kEmptySlot.
void require_ascending(const CodeReader& reader, std::span<const std::uint32_t> indices);

}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
/// Messages and files that are put together from parts in memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace dragonn {

/// Appends a part, which is none of `bytes`. GCC 12 takes vector::insert of few bytes for a write beyond its memory.
inline void append_bytes(std::vector<std::byte>& bytes, std::span<const std::byte> part) {
  const std::size_t size = bytes.size();
  bytes.resize(size + part.size());
  if (!part.empty()) std::memcpy(bytes.data() + size, part.data(), part.size());
}

}  // namespace dragonn

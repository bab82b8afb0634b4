// SPDX-License-Identifier: MIT
/// Reads files that may be compressed with gzip.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace dragonn::data {

/// Returns the content of `path`, decompressed if it starts with gzip's magic number. `limit_bytes` bounds the result,
/// so that a damaged or hostile file cannot fill the memory.
/// @throws ConfigError if the file is missing; DataError with file and offset if the compressed data is damaged,
/// truncated, or larger than the limit.
std::vector<std::byte> read_maybe_gzip(const std::filesystem::path& path, std::size_t limit_bytes);

}  // namespace dragonn::data

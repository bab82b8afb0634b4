// SPDX-License-Identifier: MIT
/// The IDX format: a big-endian header (magic with type and rank, then the extents) and unsigned bytes, which may be
/// compressed with gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/images/image_dataset.h"

namespace dragonn::data {

/// Returns the content of `path`, decompressed if it starts with gzip's magic number. `limit_bytes` bounds the result,
/// so that a damaged or hostile file cannot fill the memory.
/// @throws ConfigError if the file is missing; DataError with file and offset if the compressed data is damaged,
/// truncated, or larger than the limit.
std::vector<std::byte> read_maybe_gzip(const std::filesystem::path& path, std::size_t limit_bytes);

/// Reads grey images and their labels: IDX files of unsigned bytes, read by read_maybe_gzip().
/// @throws ConfigError if one is missing; DataError with file and offset (in the decompressed content) for a wrong
/// magic number, a size that does not match the extents, or a label that is not below `classes`, and if the two files
/// do not hold equally many or the images are not `height` x `width`.
ImageStore read_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels,
                           std::int64_t height, std::int64_t width, int classes);

}  // namespace dragonn::data

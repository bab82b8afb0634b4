// SPDX-License-Identifier: MIT
/// The IDX format: a big-endian header (magic with type and rank, then the extents) and unsigned bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/images/image_dataset.h"

namespace dragonn::data {

/// An array of unsigned bytes.
struct IdxArray {
  std::vector<std::size_t> extents;
  std::vector<std::uint8_t> values;
};

/// Reads an IDX file of unsigned bytes and of `rank` dimensions, plain or compressed with gzip.
/// @throws ConfigError if it is missing; DataError with file and offset (in the decompressed content) for a wrong magic
/// number or a size that does not match the extents.
IdxArray read_idx(const std::filesystem::path& path, std::size_t rank);

/// Grey images with their labels. @throws as read_idx, and DataError if the two files do not hold equally many, the
/// images are not `height` x `width`, or a label is not below `classes`.
ImageStore read_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels,
                           std::int64_t height, std::int64_t width, int classes);

}  // namespace dragonn::data

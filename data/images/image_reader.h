// SPDX-License-Identifier: MIT
/// ImageReader: one thread's memory for reading image files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "data/images/image_file.h"
#include "data/images/resample.h"

namespace dragonn::data {

/// Reads and decodes files, one after the other, into the same memory. That of an unusually large image is given back.
class ImageReader {
 public:
  /// Reads the part of an image that `choose` picks, given its size. The result is valid until the next call.
  /// @throws DataError naming the file if it is damaged, too large, or cannot be read.
  RgbView read(const std::filesystem::path& path, const std::function<Region(ImageSize)>& choose);

  Resampler resampler;

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::uint8_t> rgb_;
};

/// Returns the size whose shorter side is `side`, with the proportions of `size`.
ImageSize with_shorter_side(ImageSize size, std::int64_t side);

}  // namespace dragonn::data

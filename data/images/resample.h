// SPDX-License-Identifier: MIT
/// Resampler: changes the size of 8-bit RGB images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dragonn::data {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// A part of an image, in pixels.
struct Region {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Pixels of 8-bit red, green and blue, row by row.
struct RgbView {
  const std::uint8_t* pixels = nullptr;
  ImageSize size;
  std::size_t stride = 0;  ///< bytes from row to row

  /// Returns a part of the image.
  RgbView part(const Region& region) const {
    return {pixels + static_cast<std::size_t>(region.top) * stride + static_cast<std::size_t>(region.left) * 3,
            {region.height, region.width},
            stride};
  }
};

/// Resizes by the triangle filter (bilinear), which is widened when an image shrinks, as Pillow's and torchvision's
/// antialiased `BILINEAR`. Sums are float and rounded once: Pillow also rounds between its two passes, so results
/// differ from its by at most 1. Keeps memory between calls; one thread uses it.
class Resampler {
 public:
  /// Resizes `source` to `size` and writes the part `window` of the result, mirrored if asked for.
  /// @param out [window.height, window.width, 3], overwritten.
  void resize(const RgbView& source, ImageSize size, const Region& window, bool mirrored, std::span<std::uint8_t> out);

 private:
  /// The pixels along one axis that each output is a mean of.
  struct Taps {
    std::vector<std::int32_t> first;  ///< [outputs]
    std::vector<std::int32_t> count;  ///< [outputs]
    std::vector<float> weights;       ///< [outputs, most]
    std::size_t max = 0;

    void set(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t outputs);
  };
  void add_rows(const RgbView& source, std::size_t row, std::size_t begin, std::size_t end);

  Taps down_, across_;
  std::vector<float> line_;  ///< one row of the result, with the source's columns
};

}  // namespace dragonn::data

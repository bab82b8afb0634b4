// SPDX-License-Identifier: MIT
#include "kernels/nn/patches.h"

#include <algorithm>

#include "kernels/chunks.h"

namespace dragonn::kernels {

Patches::Patches(const ConvolutionSpec& spec)
    : spec_(spec),
      output_height_(spec.vertical.outputs(spec.height)),
      output_width_(spec.horizontal.outputs(spec.width)) {}

void Patches::gather(const float* input, float* patches) const {
  const detail::Chunks images(static_cast<std::size_t>(spec_.batch), 1);
  detail::for_each_chunk(images, [&](std::size_t chunk) {
    for (std::size_t image = images.begin(chunk); image < images.end(chunk); ++image) {
      const float* pixels = input + static_cast<std::int64_t>(image) * spec_.height * spec_.width * spec_.channels;
      float* patch = patches + static_cast<std::int64_t>(image) * output_height_ * output_width_ * columns();
      for (std::int64_t y = 0; y < output_height_; ++y)
        for (std::int64_t x = 0; x < output_width_; ++x, patch += columns()) gather_row(pixels, y, x, patch);
    }
  });
}

void Patches::gather_row(const float* image, std::int64_t output_y, std::int64_t output_x, float* patch) const {
  for (std::int64_t kernel_y = 0; kernel_y < spec_.vertical.kernel; ++kernel_y) {
    const std::int64_t y = output_y * spec_.vertical.stride - spec_.vertical.padding + kernel_y;
    for (std::int64_t kernel_x = 0; kernel_x < spec_.horizontal.kernel; ++kernel_x, patch += spec_.channels) {
      const std::int64_t x = output_x * spec_.horizontal.stride - spec_.horizontal.padding + kernel_x;
      if (y < 0 || y >= spec_.height || x < 0 || x >= spec_.width)
        std::fill_n(patch, spec_.channels, 0.0f);
      else
        std::copy_n(image + (y * spec_.width + x) * spec_.channels, spec_.channels, patch);
    }
  }
}

}  // namespace dragonn::kernels

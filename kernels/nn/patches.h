// SPDX-License-Identifier: MIT
/// Patches: every window of an image batch as one row of a matrix (im2col). For .cpp files of this folder only.
#pragma once

#include "kernels/nn/convolution.h"

namespace dragonn::kernels {

/// The patch matrix of an ungrouped convolution: a row per output pixel with the inputs of its window in the order of
/// HWIO weights, and zeros for padding. Host memory.
class Patches {
 public:
  explicit Patches(const ConvolutionSpec& spec);

  std::int64_t rows() const { return spec_.batch * output_height_ * output_width_; }
  std::int64_t columns() const { return spec_.vertical.kernel * spec_.horizontal.kernel * spec_.channels; }
  /// Gathers the patches. @param input [batch, height, width, channels].  @param patches [rows(), columns()],
  /// overwritten.
  void gather(const float* input, float* patches) const;

 private:
  void gather_row(const float* image, std::int64_t output_y, std::int64_t output_x, float* patch) const;

  ConvolutionSpec spec_;
  std::int64_t output_height_;
  std::int64_t output_width_;
};

}  // namespace dragonn::kernels

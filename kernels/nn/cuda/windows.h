// SPDX-License-Identifier: MIT
/// Windows on an image: the inputs that a window sees, and the windows that see an input. For .cu files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/nn/plan.h"

namespace dragonn::kernels::cuda {

/// Windows along one axis of an image.
struct Axis {
  Axis(const Window& window, std::int64_t size)
      : kernel(static_cast<int>(window.kernel)),
        stride(static_cast<int>(window.stride)),
        padding(static_cast<int>(window.padding)),
        inputs(static_cast<int>(size)),
        outputs(static_cast<int>(window.outputs(size))) {}
  /// Returns the inputs that window `output` sees: [begin, end).
  __device__ int begin(int output) const { return max(0, output * stride - padding); }
  __device__ int end(int output) const { return min(inputs, output * stride - padding + kernel); }
  /// Returns the windows that see `input`: [first, last].
  __device__ int first(int input) const {
    const int beyond = input + padding - kernel;
    return beyond < 0 ? 0 : beyond / stride + 1;
  }
  __device__ int last(int input) const { return min(outputs - 1, (input + padding) / stride); }

  int kernel, stride, padding, inputs, outputs;
};

/// The place of an element in an array [batch, height, width, channels].
struct Position {
  __device__ Position(std::size_t element, int height, int width, std::size_t channels) {
    const Split pixel = split(element, channels), line = split(pixel.quotient, width);
    const Split rows = split(line.quotient, height);
    channel = pixel.remainder;
    column = static_cast<int>(line.remainder);
    row = static_cast<int>(rows.remainder);
    image = rows.quotient;
  }
  std::size_t channel;
  int column, row;
  std::size_t image;
};

__device__ inline std::size_t pixel_of(std::size_t image, int row, int column, int height, int width) {
  return (image * height + row) * width + column;
}

}  // namespace dragonn::kernels::cuda

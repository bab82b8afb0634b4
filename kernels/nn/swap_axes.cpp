// SPDX-License-Identifier: MIT
#include "kernels/nn/swap_axes.h"

#include <algorithm>

namespace dragonn::kernels {
namespace {

/// Transposes in tiles that the first-level cache holds: otherwise every element of one side would touch a new cache
/// line.
void transpose(const float* input, std::size_t rows, std::size_t columns, float* output) {
  constexpr std::size_t kTile = 16;
  for (std::size_t top = 0; top < rows; top += kTile)
    for (std::size_t left = 0; left < columns; left += kTile)
      for (std::size_t row = top; row < std::min(rows, top + kTile); ++row)
        for (std::size_t column = left; column < std::min(columns, left + kTile); ++column)
          output[column * rows + row] = input[row * columns + column];
}

void on_cpu(View<const float> input, std::size_t rows, std::size_t columns, View<float> output) {
  for (std::size_t begin = 0; begin < input.size(); begin += rows * columns)
    transpose(input.data() + begin, rows, columns, output.data() + begin);
}

}  // namespace

SwapAxesTable& swap_axes_table() {
  static SwapAxesTable table("swap_axes", on_cpu);
  return table;
}

void swap_axes(View<const float> input, std::size_t rows, std::size_t columns, View<float> output) {
  if (input.size() != output.size() || input.size() % (rows * columns) != 0)
    throw ShapeError(
        fmt::format("matrices of [{}, {}]: {} elements into {}", rows, columns, input.size(), output.size()));
  swap_axes_table().at(input.device())(input, rows, columns, output);
}

}  // namespace dragonn::kernels

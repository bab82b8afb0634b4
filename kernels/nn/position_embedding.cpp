// SPDX-License-Identifier: MIT
#include "kernels/nn/position_embedding.h"

#include <algorithm>

namespace dragonn::kernels {
namespace {

void forward_cpu(View<const float> input, View<const float> table, std::size_t steps, std::size_t width,
                 View<float> output) {
  const std::size_t sample = steps * width;
  for (std::size_t begin = 0; begin < input.size(); begin += sample)
    for (std::size_t i = 0; i < sample; ++i) output.data()[begin + i] = input.data()[begin + i] + table.data()[i];
}

void backward_cpu(View<const float> output_gradient, std::size_t steps, std::size_t width, View<float> table_gradient) {
  std::ranges::fill(table_gradient.host(), 0.0f);
  const std::size_t sample = steps * width;
  for (std::size_t begin = 0; begin < output_gradient.size(); begin += sample)
    for (std::size_t i = 0; i < sample; ++i) table_gradient.data()[i] += output_gradient.data()[begin + i];
}

void check_sizes(std::size_t values, std::size_t table, std::size_t steps, std::size_t width) {
  if (values % (steps * width) != 0 || table < steps * width || table % width != 0)
    throw ShapeError(fmt::format("positions of {} steps of width {} for {} values, from a table of {}", steps, width,
                                 values, table));
}

}  // namespace

AddPositionsTable& add_positions_table() {
  static AddPositionsTable table("add_positions", forward_cpu);
  return table;
}
AddPositionsBackwardTable& add_positions_backward_table() {
  static AddPositionsBackwardTable table("add_positions_backward", backward_cpu);
  return table;
}

void add_positions(View<const float> input, View<const float> table, std::size_t steps, std::size_t width,
                   View<float> output) {
  check_sizes(input.size(), table.size(), steps, width);
  check_sizes(output.size(), table.size(), steps, width);
  add_positions_table().at(input.device())(input, table, steps, width, output);
}
void add_positions_backward(View<const float> output_gradient, std::size_t steps, std::size_t width,
                            View<float> table_gradient) {
  check_sizes(output_gradient.size(), table_gradient.size(), steps, width);
  add_positions_backward_table().at(output_gradient.device())(output_gradient, steps, width, table_gradient);
}

}  // namespace dragonn::kernels

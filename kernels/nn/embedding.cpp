// SPDX-License-Identifier: MIT
#include "kernels/nn/embedding.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.h"
#include "kernels/nn/elementwise.h"
#include "kernels/refuse_token.h"

namespace dragonn::kernels {
namespace {

void embed_cpu(View<const float> tokens, View<const float> table, std::size_t width, TypedView<float> output) {
  const std::size_t rows = table.size() / width;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const float token = tokens.host()[i];
    // In this form a NaN is refused, too.
    if (!(token >= 0 && token < static_cast<float>(rows)) ||
        token != static_cast<float>(static_cast<std::size_t>(token)))
      refuse_token(token, i, rows);
    std::copy_n(table.data() + static_cast<std::size_t>(token) * width, width, output.data() + i * width);
  }
}

void embed_backward_cpu(View<const float> tokens, TypedView<const float> output_gradient, std::size_t width,
                        View<float> table_gradient, bool adds) {
  if (!adds) fill(0, table_gradient);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const float* from = output_gradient.data() + i * width;
    float* to = table_gradient.data() + static_cast<std::size_t>(tokens.host()[i]) * width;
    for (std::size_t column = 0; column < width; ++column) to[column] += from[column];
  }
}

bool check_sizes(std::size_t tokens, std::size_t values, std::size_t table, std::size_t width) {
  if (values != tokens * width || table % width != 0)
    throw ShapeError(fmt::format("embedding of {} tokens of width {} into {} values, from a table of {}", tokens, width,
                                 values, table));
  return true;
}

void add_positions_cpu(TypedView<const float> input, View<const float> table, std::size_t steps, std::size_t width,
                       TypedView<float> output) {
  const std::size_t sample = steps * width;
  for (std::size_t begin = 0; begin < input.size(); begin += sample)
    for (std::size_t i = 0; i < sample; ++i) output.data()[begin + i] = input.data()[begin + i] + table.data()[i];
}

void add_positions_backward_cpu(TypedView<const float> output_gradient, std::size_t steps, std::size_t width,
                                View<float> table_gradient) {
  fill(0, table_gradient);
  const std::size_t sample = steps * width;
  for (std::size_t begin = 0; begin < output_gradient.size(); begin += sample)
    for (std::size_t i = 0; i < sample; ++i) table_gradient.data()[i] += output_gradient.data()[begin + i];
}

bool check_positions(std::size_t values, std::size_t table, std::size_t steps, std::size_t width) {
  if (values % (steps * width) != 0 || table < steps * width || table % width != 0)
    throw ShapeError(fmt::format("positions of {} steps of width {} for {} values, from a table of {}", steps, width,
                                 values, table));
  return true;
}

}  // namespace

constinit decltype(embed) embed("embed", embed_cpu, [](auto tokens, auto table, std::size_t width, auto output) {
  return check_sizes(tokens.size(), output.size(), table.size(), width);
});
constinit decltype(embed_backward) embed_backward(
    "embed_backward", embed_backward_cpu, [](auto tokens, auto values, std::size_t width, auto table, bool) -> bool {
      return check_sizes(tokens.size(), values.size(), table.size(), width);
    });
constinit decltype(add_positions) add_positions("add_positions", add_positions_cpu,
                                                [](auto input, auto table, std::size_t steps, std::size_t width,
                                                   auto output) -> bool {
                                                  return check_positions(input.size(), table.size(), steps, width) &&
                                                         check_positions(output.size(), table.size(), steps, width);
                                                });
constinit decltype(add_positions_backward) add_positions_backward(
    "add_positions_backward", add_positions_backward_cpu,
    [](auto output_gradient, std::size_t steps, std::size_t width, auto table_gradient) {
      return check_positions(output_gradient.size(), table_gradient.size(), steps, width);
    });

}  // namespace dragonn::kernels

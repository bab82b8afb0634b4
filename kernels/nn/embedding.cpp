// SPDX-License-Identifier: MIT
#include "kernels/nn/embedding.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.h"
#include "kernels/refuse_token.h"

namespace dragonn::kernels {
namespace {

void embed_cpu(View<const float> tokens, View<const float> table, std::size_t width, View<float> output) {
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

void embed_backward_cpu(View<const float> tokens, View<const float> output_gradient, std::size_t width,
                        View<float> table_gradient) {
  std::ranges::fill(table_gradient.host(), 0.0f);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const float* from = output_gradient.data() + i * width;
    float* to = table_gradient.data() + static_cast<std::size_t>(tokens.host()[i]) * width;
    for (std::size_t column = 0; column < width; ++column) to[column] += from[column];
  }
}

void check_sizes(std::size_t tokens, std::size_t values, std::size_t table, std::size_t width) {
  if (values != tokens * width || table % width != 0)
    throw ShapeError(fmt::format("embedding of {} tokens of width {} into {} values, from a table of {}", tokens, width,
                                 values, table));
}

}  // namespace

EmbedTable& embed_table() {
  static EmbedTable table("embed", embed_cpu);
  return table;
}
EmbedTable& embed_backward_table() {
  static EmbedTable table("embed_backward", embed_backward_cpu);
  return table;
}

void embed(View<const float> tokens, View<const float> table, std::size_t width, View<float> output) {
  check_sizes(tokens.size(), output.size(), table.size(), width);
  embed_table().at(tokens.device())(tokens, table, width, output);
}
void embed_backward(View<const float> tokens, View<const float> output_gradient, std::size_t width,
                    View<float> table_gradient) {
  check_sizes(tokens.size(), output_gradient.size(), table_gradient.size(), width);
  embed_backward_table().at(tokens.device())(tokens, output_gradient, width, table_gradient);
}

}  // namespace dragonn::kernels

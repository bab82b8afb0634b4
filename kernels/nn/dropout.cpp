// SPDX-License-Identifier: MIT
#include "kernels/nn/dropout.h"

#include <algorithm>
#include <array>
#include <span>

#include "kernels/uniform_draws.h"

namespace dragonn::kernels {
namespace {

void on_cpu(View<const float> input, float rate, View<const std::uint64_t> key, View<float> output) {
  std::array<float, 1024> draws;
  const float factor = 1.0f / (1.0f - rate);
  for (std::size_t begin = 0; begin < input.size(); begin += draws.size()) {
    const std::size_t count = std::min(draws.size(), input.size() - begin);
    uniform_draws(key.host()[0], begin, std::span(draws).first(count));
    const float* from = input.data() + begin;
    float* to = output.data() + begin;
    for (std::size_t i = 0; i < count; ++i) to[i] = draws[i] >= rate ? from[i] * factor : 0.0f;
  }
}

}  // namespace

DropoutTable& dropout_table() {
  static DropoutTable table("dropout", on_cpu);
  return table;
}

void dropout(View<const float> input, float rate, View<const std::uint64_t> key, View<float> output) {
  if (input.size() != output.size() || key.size() != 1)
    throw ShapeError(
        fmt::format("dropout of {} elements into {} with {} keys", input.size(), output.size(), key.size()));
  dropout_table().at(input.device())(input, rate, key, output);
}

}  // namespace dragonn::kernels

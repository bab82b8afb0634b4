// SPDX-License-Identifier: MIT
#include "kernels/dropout.h"

#include "core/rng.h"

namespace dragonn::kernels {
namespace {

void on_cpu(View<const float> input, float rate, std::uint64_t key, View<float> output) {
  Rng draws(key);
  const float factor = 1.0f / (1.0f - rate);
  const float* from = input.data();
  float* to = output.data();
  for (std::size_t i = 0; i < input.size(); ++i) to[i] = draws.uniform() >= rate ? from[i] * factor : 0.0f;
}

}  // namespace

DropoutTable& dropout_table() {
  static DropoutTable table("dropout", on_cpu);
  return table;
}

void dropout(View<const float> input, float rate, std::uint64_t key, View<float> output) {
  if (input.size() != output.size())
    throw ShapeError(fmt::format("dropout of {} elements into {}", input.size(), output.size()));
  dropout_table().at(input.device())(input, rate, key, output);
}

}  // namespace dragonn::kernels

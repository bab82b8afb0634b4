// SPDX-License-Identifier: MIT
#include "kernels/nn/lookahead.h"

#include <algorithm>

namespace dragonn::kernels {
namespace {

/// Adds products: target_f += a_f * b_f.
void add_products(const float* a, const float* b, std::size_t features, float* target) {
  for (std::size_t f = 0; f < features; ++f) target[f] += a[f] * b[f];
}

/// Calls body(output row, j, input row) for every pair of rows that a weight connects.
template <class Body>
void for_each_pair(const LookaheadSpec& spec, const Body& body) {
  for (std::size_t sample = 0; sample < spec.batch; ++sample)
    for (std::size_t t = 0; t < spec.steps; ++t)
      for (std::size_t j = 0; j <= spec.context && t + j < spec.steps; ++j) {
        const std::size_t row = (sample * spec.steps + t) * spec.features;
        body(row, j * spec.features, row + j * spec.features);
      }
}

void forward_cpu(const LookaheadSpec& spec, TypedView<const float> input, View<const float> weights,
                 TypedView<float> output) {
  std::ranges::fill(output.host(), 0.0f);
  for_each_pair(spec, [&](std::size_t to, std::size_t weight, std::size_t from) {
    add_products(weights.data() + weight, input.data() + from, spec.features, output.data() + to);
  });
}

void backward_cpu(const LookaheadSpec& spec, TypedView<const float> input, View<const float> weights,
                  TypedView<const float> output_gradient, TypedView<float> input_gradient,
                  View<float> weights_gradient) {
  std::ranges::fill(weights_gradient.host(), 0.0f);
  std::ranges::fill(input_gradient.host(), 0.0f);
  for_each_pair(spec, [&](std::size_t output, std::size_t weight, std::size_t from) {
    const float* gradient = output_gradient.data() + output;
    add_products(gradient, input.data() + from, spec.features, weights_gradient.data() + weight);
    if (!input_gradient.empty())
      add_products(gradient, weights.data() + weight, spec.features, input_gradient.data() + from);
  });
}

bool check_sizes(const LookaheadSpec& spec, std::size_t input, std::size_t weights, std::size_t output) {
  const std::size_t values = spec.batch * spec.steps * spec.features;
  if (input != values || output != values || weights != (spec.context + 1) * spec.features)
    throw ShapeError(
        fmt::format("lookahead of {} samples, {} steps and {} features by {} steps: got {} inputs, {} "
                    "weights and {} outputs",
                    spec.batch, spec.steps, spec.features, spec.context, input, weights, output));
  return true;
}

}  // namespace

constinit decltype(lookahead_forward) lookahead_forward(
    "lookahead_forward", forward_cpu, [](const LookaheadSpec& spec, auto input, auto weights, auto output) {
      return check_sizes(spec, input.size(), weights.size(), output.size());
    });
constinit decltype(lookahead_backward) lookahead_backward(
    "lookahead_backward", backward_cpu,
    [](const LookaheadSpec& spec, auto input, auto, auto output_gradient, auto, auto weights_gradient) {
      return check_sizes(spec, input.size(), weights_gradient.size(), output_gradient.size());
    });

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
#include "kernels/nn/sequence_rows.h"

#include <algorithm>

namespace dragonn::kernels {
namespace {

/// Calls body(batch-major position, time-major position, is valid) for every row.
template <class Body>
void for_each_row(const SequenceRows& rows, std::span<const std::int32_t> lengths, const Body& body) {
  for (std::size_t sample = 0; sample < rows.batch; ++sample)
    for (std::size_t t = 0; t < rows.steps; ++t)
      body((sample * rows.steps + t) * rows.width + rows.offset, (t * rows.batch + sample) * rows.size,
           lengths.empty() || static_cast<std::int64_t>(t) < lengths[sample]);
}

void to_time_major_cpu(const SequenceRows& rows, TypedView<const float> batch_major,
                       std::span<const std::int32_t> lengths, TypedView<float> time_major) {
  for_each_row(rows, lengths, [&](std::size_t from, std::size_t to, bool is_valid) {
    float* target = time_major.data() + to;
    if (is_valid)
      std::copy_n(batch_major.data() + from, rows.size, target);
    else
      std::fill_n(target, rows.size, 0.0f);
  });
}

void to_batch_major_cpu(const SequenceRows& rows, TypedView<const float> time_major,
                        std::span<const std::int32_t> lengths, bool add, TypedView<float> batch_major) {
  for_each_row(rows, lengths, [&](std::size_t to, std::size_t from, bool is_valid) {
    const float* source = time_major.data() + from;
    float* target = batch_major.data() + to;
    if (!add) std::fill_n(target, rows.size, 0.0f);
    if (is_valid)
      for (std::size_t i = 0; i < rows.size; ++i) target[i] += source[i];
  });
}

void mask_steps_cpu(const SequenceRows& rows, TypedView<const float> input, std::span<const std::int32_t> lengths,
                    TypedView<float> output) {
  if (input.data() != output.data()) std::copy_n(input.data(), input.size(), output.data());
  for_each_row(rows, lengths, [&](std::size_t at, std::size_t, bool is_valid) {
    if (!is_valid) std::fill_n(output.data() + at, rows.size, 0.0f);
  });
}

bool check_sizes(const SequenceRows& rows, std::size_t batch_major, std::size_t time_major, std::size_t lengths) {
  const std::size_t count = rows.batch * rows.steps;
  if (rows.offset + rows.size > rows.width || batch_major != count * rows.width || time_major != count * rows.size ||
      (lengths != 0 && lengths != rows.batch))
    throw ShapeError(
        fmt::format("sequences of {} samples and {} steps, {} of {} values from {} on: got {} and {} "
                    "values and {} lengths",
                    rows.batch, rows.steps, rows.size, rows.width, rows.offset, batch_major, time_major, lengths));
  return true;
}

/// Transposes in tiles of the first-level cache: else every element of one side would touch a new cache line.
void transpose(const float* input, std::size_t rows, std::size_t columns, float* output) {
  constexpr std::size_t kTile = 16;
  for (std::size_t top = 0; top < rows; top += kTile)
    for (std::size_t left = 0; left < columns; left += kTile)
      for (std::size_t row = top; row < std::min(rows, top + kTile); ++row)
        for (std::size_t column = left; column < std::min(columns, left + kTile); ++column)
          output[column * rows + row] = input[row * columns + column];
}

void swap_axes_cpu(TypedView<const float> input, std::size_t rows, std::size_t columns, TypedView<float> output) {
  for (std::size_t begin = 0; begin < input.size(); begin += rows * columns)
    transpose(input.data() + begin, rows, columns, output.data() + begin);
}

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

constinit decltype(to_time_major) to_time_major(
    "to_time_major", to_time_major_cpu, [](const SequenceRows& rows, auto batch_major, auto lengths, auto time_major) {
      return check_sizes(rows, batch_major.size(), time_major.size(), lengths.size());
    });
constinit decltype(mask_steps) mask_steps("mask_steps", mask_steps_cpu,
                                          [](const SequenceRows& rows, auto input, auto lengths, auto output) {
                                            return check_sizes(rows, input.size(), output.size(), lengths.size());
                                          });
constinit decltype(to_batch_major) to_batch_major("to_batch_major", to_batch_major_cpu,
                                                  [](const SequenceRows& rows, auto time_major, auto lengths, bool,
                                                     auto batch_major) {
                                                    return check_sizes(rows, batch_major.size(), time_major.size(),
                                                                       lengths.size());
                                                  });

constinit decltype(swap_axes) swap_axes("swap_axes", swap_axes_cpu,
                                        [](auto input, std::size_t rows, std::size_t columns, auto output) {
                                          if (input.size() != output.size() || input.size() % (rows * columns) != 0)
                                            throw ShapeError(fmt::format("matrices of [{}, {}]: {} elements into {}",
                                                                         rows, columns, input.size(), output.size()));
                                          return true;
                                        });
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

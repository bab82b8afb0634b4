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

void to_time_major_cpu(const SequenceRows& rows, View<const float> batch_major, std::span<const std::int32_t> lengths,
                       View<float> time_major) {
  for_each_row(rows, lengths, [&](std::size_t from, std::size_t to, bool is_valid) {
    float* target = time_major.data() + to;
    if (is_valid)
      std::copy_n(batch_major.data() + from, rows.size, target);
    else
      std::fill_n(target, rows.size, 0.0f);
  });
}

void to_batch_major_cpu(const SequenceRows& rows, View<const float> time_major, std::span<const std::int32_t> lengths,
                        bool add, View<float> batch_major) {
  for_each_row(rows, lengths, [&](std::size_t to, std::size_t from, bool is_valid) {
    const float* source = time_major.data() + from;
    float* target = batch_major.data() + to;
    if (!add) std::fill_n(target, rows.size, 0.0f);
    if (is_valid)
      for (std::size_t i = 0; i < rows.size; ++i) target[i] += source[i];
  });
}

void mask_steps_cpu(const SequenceRows& rows, View<const float> input, std::span<const std::int32_t> lengths,
                    View<float> output) {
  if (input.data() != output.data()) std::copy_n(input.data(), input.size(), output.data());
  for_each_row(rows, lengths, [&](std::size_t at, std::size_t, bool is_valid) {
    if (!is_valid) std::fill_n(output.data() + at, rows.size, 0.0f);
  });
}

void check_sizes(const SequenceRows& rows, std::size_t batch_major, std::size_t time_major, std::size_t lengths) {
  const std::size_t count = rows.batch * rows.steps;
  if (rows.offset + rows.size > rows.width || batch_major != count * rows.width || time_major != count * rows.size ||
      (lengths != 0 && lengths != rows.batch))
    throw ShapeError(
        fmt::format("sequences of {} samples and {} steps, {} of {} values from {} on: got {} and {} "
                    "values and {} lengths",
                    rows.batch, rows.steps, rows.size, rows.width, rows.offset, batch_major, time_major, lengths));
}

}  // namespace

ToTimeMajorTable& to_time_major_table() {
  static ToTimeMajorTable table("to_time_major", to_time_major_cpu);
  return table;
}
ToTimeMajorTable& mask_steps_table() {
  static ToTimeMajorTable table("mask_steps", mask_steps_cpu);
  return table;
}
ToBatchMajorTable& to_batch_major_table() {
  static ToBatchMajorTable table("to_batch_major", to_batch_major_cpu);
  return table;
}

void to_time_major(const SequenceRows& rows, View<const float> batch_major, std::span<const std::int32_t> lengths,
                   View<float> time_major) {
  check_sizes(rows, batch_major.size(), time_major.size(), lengths.size());
  to_time_major_table().at(batch_major.device())(rows, batch_major, lengths, time_major);
}
void mask_steps(const SequenceRows& rows, View<const float> input, std::span<const std::int32_t> lengths,
                View<float> output) {
  check_sizes(rows, input.size(), output.size(), lengths.size());
  mask_steps_table().at(input.device())(rows, input, lengths, output);
}
void to_batch_major(const SequenceRows& rows, View<const float> time_major, std::span<const std::int32_t> lengths,
                    bool add, View<float> batch_major) {
  check_sizes(rows, batch_major.size(), time_major.size(), lengths.size());
  to_batch_major_table().at(time_major.device())(rows, time_major, lengths, add, batch_major);
}

}  // namespace dragonn::kernels

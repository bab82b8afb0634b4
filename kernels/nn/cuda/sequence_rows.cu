// SPDX-License-Identifier: MIT
#include "kernels/cuda/runtime.h"
#include "kernels/nn/sequence_rows.h"

namespace dragonn::kernels::cuda {
namespace {

using Lengths = std::span<const std::int32_t>;

/// Returns the lengths on the GPU; null if all steps are valid.
const std::int32_t* staged(Context& here, Lengths lengths) {
  return lengths.empty() ? nullptr : here.stage({lengths});
}

__device__ bool is_valid(const std::int32_t* lengths, std::size_t sample, std::size_t t) {
  return lengths == nullptr || static_cast<std::int64_t>(t) < lengths[sample];
}

/// Copies to time-major order. Elements are numbered in the order of the time-major side.
__global__ void to_time_major_kernel(SequenceRows rows, const float* batch_major, const std::int32_t* lengths,
                                     float* time_major, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split row = split(i, rows.size), step = split(row.quotient, rows.batch);
    const std::size_t sample = step.remainder, t = step.quotient;
    const std::size_t from = (sample * rows.steps + t) * rows.width + rows.offset + row.remainder;
    time_major[i] = is_valid(lengths, sample, t) ? batch_major[from] : 0.0f;
  }
}

__global__ void to_batch_major_kernel(SequenceRows rows, const float* time_major, const std::int32_t* lengths, bool add,
                                      float* batch_major, std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split row = split(i, rows.size), step = split(row.quotient, rows.steps);
    const std::size_t sample = step.quotient, t = step.remainder;
    const std::size_t to = row.quotient * rows.width + rows.offset + row.remainder;
    const float before = add ? batch_major[to] : 0.0f;
    const float own =
        is_valid(lengths, sample, t) ? time_major[(t * rows.batch + sample) * rows.size + row.remainder] : 0.0f;
    batch_major[to] = before + own;
  }
}

__global__ void mask_kernel(SequenceRows rows, const float* input, const std::int32_t* lengths, float* output,
                            std::size_t size) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    const Split step = split(split(i, rows.size).quotient, rows.steps);
    output[i] = is_valid(lengths, step.quotient, step.remainder) ? input[i] : 0.0f;
  }
}

void to_time_major(const SequenceRows& rows, View<const float> batch_major, Lengths lengths, View<float> time_major) {
  if (time_major.empty()) return;
  Context& here = context(time_major.device());
  launch(here, "to_time_major", here.blocks(time_major.size(), kThreads), kThreads, to_time_major_kernel, rows,
         batch_major.data(), staged(here, lengths), time_major.data(), time_major.size());
}

void to_batch_major(const SequenceRows& rows, View<const float> time_major, Lengths lengths, bool add,
                    View<float> batch_major) {
  if (time_major.empty()) return;
  Context& here = context(batch_major.device());
  launch(here, "to_batch_major", here.blocks(time_major.size(), kThreads), kThreads, to_batch_major_kernel, rows,
         time_major.data(), staged(here, lengths), add, batch_major.data(), time_major.size());
}

/// Masks whole rows: `size` is `width`.
void mask_steps(const SequenceRows& rows, View<const float> input, Lengths lengths, View<float> output) {
  if (input.empty()) return;
  Context& here = context(output.device());
  launch(here, "mask_steps", here.blocks(input.size(), kThreads), kThreads, mask_kernel, rows, input.data(),
         staged(here, lengths), output.data(), input.size());
}

[[maybe_unused]] const bool registered = to_time_major_table().add(DeviceType::kCuda, to_time_major) &&
                                         to_batch_major_table().add(DeviceType::kCuda, to_batch_major) &&
                                         mask_steps_table().add(DeviceType::kCuda, mask_steps);

}  // namespace
}  // namespace dragonn::kernels::cuda

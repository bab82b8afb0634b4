// SPDX-License-Identifier: MIT
// Moving entries between sparse and dense vectors: a thread per entry. No atomics: the indices of a list are unique.
// Filtering and counting of entries that reach a threshold: filtering reads 8 bytes per entry and writes 8 per entry
// kept; counting reads 4.
#include "kernels/cuda/block_reduce.h"
#include "kernels/gradient/cuda/look_back.h"
#include "kernels/gradient/select.h"

namespace dragonn::kernels::cuda {
namespace {

__global__ void gather_kernel(const float* values, const std::uint32_t* indices, std::size_t size, float* out) {
  for (std::size_t entry = first_element(); entry < size; entry += element_stride())
    out[entry] = values[indices[entry]];
}

__global__ void scatter_add_kernel(const std::uint32_t* indices, const float* added, std::size_t size, float* values) {
  for (std::size_t entry = first_element(); entry < size; entry += element_stride()) {
    const std::uint32_t index = indices[entry];
    if (index != kEmptySlot) values[index] += added[entry];
  }
}

__global__ void scatter_subtract_kernel(const std::uint32_t* indices, const float* subtracted, std::size_t size,
                                        float* values) {
  for (std::size_t entry = first_element(); entry < size; entry += element_stride()) {
    const std::uint32_t index = indices[entry];
    if (index != kEmptySlot) values[index] -= subtracted[entry];
  }
}

__global__ void scatter_move_kernel(const std::uint32_t* indices, std::size_t size, float* from, float* to) {
  for (std::size_t entry = first_element(); entry < size; entry += element_stride()) {
    const std::uint32_t index = indices[entry];
    if (index == kEmptySlot) continue;
    to[index] += from[index];
    from[index] = 0;
  }
}

__global__ void scatter_zero_kernel(const std::uint32_t* indices, std::size_t size, float* values) {
  for (std::size_t entry = first_element(); entry < size; entry += element_stride()) {
    const std::uint32_t index = indices[entry];
    if (index != kEmptySlot) values[index] = 0;
  }
}

void gather_on_gpu(View<const float> values, View<const std::uint32_t> indices, View<float> out) {
  const Context& here = context(values.device());
  launch_over(here, "gather", out.size(), gather_kernel, values.data(), indices.data(), out.size(), out.data());
}

void scatter_add_on_gpu(const SparseVector& entries, View<float> values) {
  const Context& here = context(values.device());
  launch_over(here, "scatter_add", entries.size(), scatter_add_kernel, entries.indices.data(), entries.values.data(),
              entries.size(), values.data());
}

void scatter_subtract_on_gpu(const SparseVector& entries, View<float> values) {
  const Context& here = context(values.device());
  launch_over(here, "scatter_subtract", entries.size(), scatter_subtract_kernel, entries.indices.data(),
              entries.values.data(), entries.size(), values.data());
}

void scatter_move_on_gpu(View<const std::uint32_t> indices, View<float> from, View<float> to) {
  const Context& here = context(to.device());
  launch_over(here, "scatter_move", indices.size(), scatter_move_kernel, indices.data(), indices.size(), from.data(),
              to.data());
}

void scatter_zero_on_gpu(View<const std::uint32_t> indices, View<float> values) {
  const Context& here = context(values.device());
  launch_over(here, "scatter_zero", indices.size(), scatter_zero_kernel, indices.data(), indices.size(), values.data());
}

struct ReachesThreshold {
  float threshold;
  __device__ Verdict operator()(std::uint32_t /*index*/, float value) const {
    return fabsf(value) >= threshold ? Verdict::kKeep : Verdict::kDrop;
  }
  __device__ std::uint32_t max_ties() const { return 0; }
};

void filter(const SparseVector& entries, float threshold, SparseVector& selected) {
  compact_entries(context(entries.device()), entries, ReachesThreshold{threshold}, selected);
}

struct Count {
  std::uint64_t entries = 0;
  __device__ void add(const Count& other) { entries += other.entries; }
};

__global__ void count_kernel(const float* values, std::size_t size, float threshold, OrderedSum<Count>* total) {
  Count mine;
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    mine.entries += fabsf(values[i]) >= threshold ? 1 : 0;
  }
  finish_sum(mine, total);
}

std::size_t count(const SparseVector& entries, float threshold) {
  const View<const float> values = entries.values.view();
  if (values.empty()) return 0;
  Context& here = context(values.device());
  return ordered_sum<Count>(here,
                            [&](OrderedSum<Count>* total) {
                              launch(here, "count_threshold", sum_blocks(values.size(), kThreads), kThreads,
                                     count_kernel, values.data(), values.size(), threshold, total);
                            })
      .entries;
}

[[maybe_unused]] const bool registered = kernels::gather.add(DeviceType::kCuda, gather_on_gpu) &&
                                         kernels::scatter_add.add(DeviceType::kCuda, scatter_add_on_gpu) &&
                                         kernels::scatter_subtract.add(DeviceType::kCuda, scatter_subtract_on_gpu) &&
                                         kernels::scatter_move.add(DeviceType::kCuda, scatter_move_on_gpu) &&
                                         kernels::scatter_zero.add(DeviceType::kCuda, scatter_zero_on_gpu) &&
                                         kernels::filter_threshold.add(DeviceType::kCuda, filter) &&
                                         kernels::count_threshold.add(DeviceType::kCuda, count);

}  // namespace
}  // namespace dragonn::kernels::cuda

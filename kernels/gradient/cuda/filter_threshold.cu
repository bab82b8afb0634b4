// SPDX-License-Identifier: MIT
// Filtering and counting of entries that reach a threshold. Filtering reads 8 bytes per entry and writes 8 per entry
// kept; counting reads 4.
#include "kernels/cuda/ordered_sum.h"
#include "kernels/gradient/cuda/compact_entries.h"
#include "kernels/gradient/select.h"

namespace dragonn::kernels::cuda {
namespace {

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

[[maybe_unused]] const bool registered =
    kernels::filter_threshold.add(DeviceType::kCuda, filter) && kernels::count_threshold.add(DeviceType::kCuda, count);

}  // namespace
}  // namespace dragonn::kernels::cuda

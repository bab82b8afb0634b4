// SPDX-License-Identifier: MIT
// CUB's DeviceTopK on the magnitudes, which finds the k largest without a threshold and leaves them in no order. The
// toolkit's CUB may be too old for it; a newer one can be put in front (bench/README.md).
#include <cub/version.cuh>

#include "bench/cuda/scratch.h"
#include "kernels/gradient/select.h"

// Before 3.3 it has other arguments, or is missing.
#if CUB_VERSION >= 300300
#include <cub/device/device_topk.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#endif

namespace dragonn::bench {
namespace {

constexpr const char* kName = "cub_topk";
constexpr const char* kSummary = "CUB's DeviceTopK on magnitudes, then a gather of the values; unordered";

#if CUB_VERSION >= 300300

struct Magnitude {
  __device__ float operator()(float value) const { return fabsf(value); }
};

void select_with_topk(const Subject& subject, SparseVector& selected) {
  kernels::cuda::Context& here = kernels::cuda::context(subject.gradient.device());
  Scratch& scratch = scratch_on(subject.gradient.device());
  scratch.floats.resize_discard(subject.k);
  selected.resize_discard(subject.k);
  const auto magnitudes = thrust::make_transform_iterator(subject.gradient.data(), Magnitude{});
  const auto how = cuda::std::execution::env{cuda::stream_ref{here.stream()},
                                             cuda::execution::require(cuda::execution::determinism::not_guaranteed,
                                                                      cuda::execution::output_ordering::unsorted)};
  with_storage(scratch, "cub::DeviceTopK::MaxPairs", [&](void* memory, std::size_t& bytes) {
    return cub::DeviceTopK::MaxPairs(memory, bytes, magnitudes, scratch.floats.data(),
                                     thrust::counting_iterator<std::uint32_t>(0), selected.indices.data(),
                                     static_cast<std::int64_t>(subject.gradient.size()),
                                     static_cast<std::int64_t>(subject.k), how);
  });
  kernels::gather(subject.gradient, std::as_const(selected.indices).view(), selected.values.view());
}

BaselineEntry entry() {
  return gpu_baseline(kName, kSummary, select_with_topk);
}

#else

BaselineEntry entry() {
  BaselineEntry entry = gpu_baseline(kName, kSummary, nullptr);
  entry.obstacle = "DeviceTopK came with CUB 3.3, and this build's is " + std::to_string(CUB_MAJOR_VERSION) + "." +
                   std::to_string(CUB_MINOR_VERSION);
  return entry;
}

#endif

const Registration<BaselineEntry> registration{entry()};

}  // namespace
}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
// Threshold selections made of a library's parts: CUB's DeviceSelect, and the pipeline of DGC's encoders, which writes
// a mask for every element, scans it, and scatters by its sums. Both give ascending indices, as ours do.
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>

#include "bench/cuda/scratch.h"
#include "bench/selection.h"
#include "kernels/devices.h"
#include "kernels/gradient/select.h"

namespace dragonn::bench {
namespace {

using kernels::cuda::Context;
using kernels::cuda::context;
using kernels::cuda::element_stride;
using kernels::cuda::first_element;
using kernels::cuda::kThreads;
using kernels::cuda::launch;

struct Reaches {
  const float* values;
  float threshold;
  __device__ bool operator()(std::uint32_t i) const { return fabsf(values[i]) >= threshold; }
};

/// Selects by CUB: reads 4 bytes per element, then gathers the values of the indices found.
void select_with_cub(const Subject& subject, SparseVector& selected) {
  Context& here = context(subject.gradient.device());
  Scratch& scratch = scratch_on(subject.gradient.device());
  scratch.words.resize_discard(subject.gradient.size());
  with_storage(scratch, "cub::DeviceSelect::If", [&](void* memory, std::size_t& bytes) {
    return cub::DeviceSelect::If(memory, bytes, thrust::counting_iterator<std::uint32_t>(0), scratch.words.data(),
                                 scratch.count.data(), static_cast<std::int64_t>(subject.gradient.size()),
                                 Reaches{subject.gradient.data(), subject.exact_threshold}, here.stream());
  });
  selected.resize_discard(read(here, scratch.count.data()));
  const View<const std::uint32_t> found = std::as_const(scratch.words).view().subview(0, selected.size());
  kernels::transfer(found, selected.indices.view());
  kernels::gather(subject.gradient, found, selected.values.view());
}

__global__ void mask_kernel(Reaches reaches, std::size_t size, std::uint32_t* mask) {
  for (std::size_t i = first_element(); i < size; i += element_stride())
    mask[i] = reaches(static_cast<std::uint32_t>(i)) ? 1 : 0;
}

__global__ void scatter_kernel(Reaches reaches, std::size_t size, const std::uint32_t* ends, std::uint32_t* indices,
                               float* values) {
  for (std::size_t i = first_element(); i < size; i += element_stride()) {
    if (!reaches(static_cast<std::uint32_t>(i))) continue;
    indices[ends[i] - 1] = static_cast<std::uint32_t>(i);
    values[ends[i] - 1] = reaches.values[i];
  }
}

/// Selects by prefix sums: 24 bytes per element, for values and mask, the scan of the mask, values and sums.
void select_with_prefix_sums(const Subject& subject, SparseVector& selected) {
  const std::size_t size = subject.gradient.size();
  Context& here = context(subject.gradient.device());
  Scratch& scratch = scratch_on(subject.gradient.device());
  scratch.words.resize_discard(size);
  std::uint32_t* const mask = scratch.words.data();
  const Reaches reaches{subject.gradient.data(), subject.exact_threshold};
  launch_over(here, "mask", size, mask_kernel, reaches, size, mask);
  with_storage(scratch, "cub::DeviceScan::InclusiveSum", [&](void* memory, std::size_t& bytes) {
    return cub::DeviceScan::InclusiveSum(memory, bytes, mask, mask, static_cast<std::int64_t>(size), here.stream());
  });
  selected.resize_discard(read(here, mask + size - 1));
  launch_over(here, "scatter by prefix sums", size, scatter_kernel, reaches, size, mask, selected.indices.data(),
              selected.values.data());
}

const Registration<BaselineEntry> cub_select{
    gpu_baseline("cub_select_if", "CUB's DeviceSelect::If on indices, then a gather of the values", select_with_cub)};
const Registration<BaselineEntry> prefix_sums{
    gpu_baseline("prefix_sums", "mask, scan, scatter: the pipeline of DGC's encoders", select_with_prefix_sums)};

}  // namespace
}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
// Selections made of a library's parts. By a threshold: CUB's DeviceSelect, and the pipeline of DGC's encoders, which
// writes a mask for every element, scans it, and scatters by its sums. Both give ascending indices, as ours do. The k
// largest in no order: CUB's DeviceTopK on the magnitudes. The toolkit's CUB may be too old for it; a newer one can be
// put in front (bench/README.md).
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <cub/version.cuh>
#include <thrust/iterator/counting_iterator.h>

#include "bench/selection.h"
#include "kernels/cuda/runtime.h"
#include "kernels/devices.h"
#include "kernels/gradient/select.h"

#if CUB_VERSION >= 300300  // before, DeviceTopK has other arguments, or is missing
#include <cub/device/device_topk.cuh>
#include <thrust/iterator/transform_iterator.h>
#endif

namespace dragonn::bench {
namespace {

using kernels::cuda::Context;
using kernels::cuda::context;
using kernels::cuda::element_stride;
using kernels::cuda::first_element;
using kernels::cuda::kThreads;
using kernels::cuda::launch;

/// Memory that is kept from call to call.
struct Scratch {
  explicit Scratch(const Device& device) : bytes(0, device), words(0, device), floats(0, device), count(1, device) {}
  Buffer<std::byte> bytes;
  Buffer<std::uint32_t> words;
  Buffer<float> floats;
  Buffer<std::uint32_t> count;
};
Scratch& scratch_on(const Device& device) {
  thread_local Scratch scratch(device);
  return scratch;
}

/// Calls run(memory, bytes) as CUB wants it: once for the number of bytes, once with the memory.
template <class Run>
void with_storage(Scratch& scratch, const char* operation, const Run& run) {
  std::size_t bytes = 0;
  kernels::cuda::check(run(nullptr, bytes), operation);
  scratch.bytes.resize_discard(bytes);
  kernels::cuda::check(run(static_cast<void*>(scratch.bytes.data()), bytes), operation);
}

std::uint32_t read(kernels::cuda::Context& here, const std::uint32_t* value) {
  kernels::cuda::check(
      cudaMemcpyAsync(here.host_results(), value, sizeof *value, cudaMemcpyDeviceToHost, here.stream()),
      "cudaMemcpyAsync");
  here.synchronize();
  return *static_cast<const std::uint32_t*>(here.host_results());
}

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

#if CUB_VERSION >= 300300
struct Magnitude {
  __device__ float operator()(float value) const { return fabsf(value); }
};

void select_with_topk(const Subject& subject, SparseVector& selected) {
  Context& here = context(subject.gradient.device());
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

const std::string topk_obstacle;
#else
void (*const select_with_topk)(const Subject&, SparseVector&) = nullptr;
const std::string topk_obstacle = "DeviceTopK came with CUB 3.3, and this build's is " +
                                  std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION);
#endif

const Registration<BaselineEntry> cub_select{
    {{"cub_select_if", "CUB's DeviceSelect::If on indices, then a gather of the values"},
     DeviceType::kCuda,
     "",
     select_with_cub}};
const Registration<BaselineEntry> prefix_sums{{{"prefix_sums", "mask, scan, scatter: the pipeline of DGC's encoders"},
                                               DeviceType::kCuda,
                                               "",
                                               select_with_prefix_sums}};
const Registration<BaselineEntry> cub_topk{
    {{"cub_topk", "CUB's DeviceTopK on magnitudes, then a gather of the values; unordered"},
     DeviceType::kCuda,
     topk_obstacle,
     select_with_topk}};

}  // namespace
}  // namespace dragonn::bench

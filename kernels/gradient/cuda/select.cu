// SPDX-License-Identifier: MIT
// Moving entries between sparse and dense vectors: a thread per entry. No atomics: the indices of a list are unique.
#include "kernels/cuda/runtime.h"
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

void scatter_zero_on_gpu(View<const std::uint32_t> indices, View<float> values) {
  const Context& here = context(values.device());
  launch_over(here, "scatter_zero", indices.size(), scatter_zero_kernel, indices.data(), indices.size(), values.data());
}

[[maybe_unused]] const bool registered = kernels::gather.add(DeviceType::kCuda, gather_on_gpu) &&
                                         kernels::scatter_add.add(DeviceType::kCuda, scatter_add_on_gpu) &&
                                         kernels::scatter_zero.add(DeviceType::kCuda, scatter_zero_on_gpu);

}  // namespace
}  // namespace dragonn::kernels::cuda

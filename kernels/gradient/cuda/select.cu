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
  launch(here, "gather", here.blocks(out.size(), kThreads), kThreads, gather_kernel, values.data(), indices.data(),
         out.size(), out.data());
}

void scatter_add_on_gpu(const SparseVector& entries, View<float> values) {
  const Context& here = context(values.device());
  launch(here, "scatter_add", here.blocks(entries.size(), kThreads), kThreads, scatter_add_kernel,
         entries.indices.data(), entries.values.data(), entries.size(), values.data());
}

void scatter_zero_on_gpu(View<const std::uint32_t> indices, View<float> values) {
  const Context& here = context(values.device());
  launch(here, "scatter_zero", here.blocks(indices.size(), kThreads), kThreads, scatter_zero_kernel, indices.data(),
         indices.size(), values.data());
}

[[maybe_unused]] const bool registered = gather_table().add(DeviceType::kCuda, gather_on_gpu) &&
                                         scatter_add_table().add(DeviceType::kCuda, scatter_add_on_gpu) &&
                                         scatter_zero_table().add(DeviceType::kCuda, scatter_zero_on_gpu);

}  // namespace
}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
/// Elementwise operations at the rate of memory. For .cu files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime.h"

namespace dragonn::kernels::cuda {

/// Applies an operation to four elements at a time if the arrays allow it: a thread that has 16 bytes of every array in
/// flight hides the latency of memory. The thread that writes an element has read it before, so inputs may be the
/// result.
template <class Operation, class... Inputs>
__global__ void map_kernel(Operation operation, bool aligned, std::size_t size, float* result, Inputs... inputs) {
  const std::size_t fours = aligned ? size / 4 : 0;
  for (std::size_t i = first_element(); i < fours; i += element_stride()) {
    const auto map_four = [&](const auto&... fours_of) {
      return float4{operation(fours_of.x...), operation(fours_of.y...), operation(fours_of.z...),
                    operation(fours_of.w...)};
    };
    reinterpret_cast<float4*>(result)[i] = map_four(reinterpret_cast<const float4*>(inputs)[i]...);
  }
  for (std::size_t i = 4 * fours + first_element(); i < size; i += element_stride())
    result[i] = operation(inputs[i]...);
}

/// Computes result_i = operation(input_i...). @param inputs pointers to as many floats as `result` has.
template <class Operation, class... Inputs>
void map(const char* name, Operation operation, View<float> result, Inputs... inputs) {
  if (result.empty()) return;
  const Context& here = context(result.device());
  const auto is_aligned = [](const float* data) {
    return reinterpret_cast<std::uintptr_t>(data) % sizeof(float4) == 0;
  };
  const bool aligned = is_aligned(result.data()) && (is_aligned(inputs) && ...);
  const std::size_t threads = aligned ? (result.size() + 3) / 4 : result.size();
  launch_over(here, name, threads, map_kernel<Operation, Inputs...>, operation, aligned, result.size(), result.data(),
              inputs...);
}

}  // namespace dragonn::kernels::cuda

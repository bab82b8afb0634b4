// SPDX-License-Identifier: MIT
/// Elementwise operations at the rate of memory. For .cu files.
#pragma once

#include <cstddef>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/runtime.h"

namespace dragonn::kernels::cuda {

/// Applies an operation to a pack of elements at a time if the arrays allow it: a thread that has 16 bytes of every
/// array in flight hides the latency of memory. The thread that writes an element has read it before, so inputs may be
/// the result.
template <class Operation, class Result, class... Inputs>
__global__ void map_kernel(Operation operation, bool aligned, std::size_t size, Result* result,
                           const Inputs*... inputs) {
  constexpr std::size_t kAtOnce = kPackSize<Result, Inputs...>;
  const std::size_t packs = aligned ? size / kAtOnce : 0;
  for (std::size_t i = first_element(); i < packs; i += element_stride()) {
    const auto map_pack = [&](const Pack<Inputs, kAtOnce>... from) {
      Pack<Result, kAtOnce> to;
#pragma unroll
      for (std::size_t k = 0; k < kAtOnce; ++k) to.values[k] = narrow<Result>(operation(widen(from.values[k])...));
      return to;
    };
    reinterpret_cast<Pack<Result, kAtOnce>*>(result)[i] =
        map_pack(reinterpret_cast<const Pack<Inputs, kAtOnce>*>(inputs)[i]...);
  }
  for (std::size_t i = kAtOnce * packs + first_element(); i < size; i += element_stride())
    result[i] = narrow<Result>(operation(widen(inputs[i])...));
}

/// Computes result_i = operation(input_i...) on the stream. @param inputs arrays as long as `result`, of any element.
template <class Operation, class Result, class... Inputs>
void map_elements(const Context& here, const char* name, Operation operation, std::size_t size, Result* result,
                  const Inputs*... inputs) {
  if (size == 0) return;
  constexpr std::size_t kAtOnce = kPackSize<Result, Inputs...>;
  const bool aligned = is_aligned(result) && (is_aligned(inputs) && ...);
  const std::size_t threads = aligned ? (size + kAtOnce - 1) / kAtOnce : size;
  launch_over(here, name, threads, map_kernel<Operation, Result, Inputs...>, operation, aligned, size, result,
              inputs...);
}

/// Computes the same for views, which are of one type of element.
template <class Operation, class... Inputs>
void map(const char* name, Operation operation, TypedView<float> result, const Inputs&... inputs) {
  if (result.empty()) return;
  with_element(result.type(), [&](auto element) {
    using Element = decltype(element);
    map_elements(context(result.device()), name, operation, result.size(), result.as<Element>(),
                 inputs.template as<Element>()...);
  });
}

}  // namespace dragonn::kernels::cuda

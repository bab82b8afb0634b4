// SPDX-License-Identifier: MIT
/// Elements: arrays of float32 or bf16 that kernels read and write as float32, one by one or 16 bytes at a time; and
/// elementwise operations at the rate of memory. For .cu files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/device.h"
#include "kernels/cuda/runtime.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels::cuda {

DRAGONN_HOST_DEVICE constexpr float widen(float value) {
  return value;
}
DRAGONN_HOST_DEVICE constexpr float widen(Bf16 value) {
  return from_bf16(value);
}
template <class Element>
DRAGONN_HOST_DEVICE constexpr Element narrow(float value) {
  if constexpr (std::is_same_v<Element, Bf16>)
    return to_bf16(value);
  else
    return value;
}

/// An array that is read.
template <class Element>
struct Reader {
  DRAGONN_HOST_DEVICE Reader(const Element* elements) : data(elements) {}  // NOLINT(google-explicit-constructor)
  Reader(const TypedView<const float>& view)                               // NOLINT(google-explicit-constructor)
      : data(view.template as<Element>()) {}
  Reader(const TypedView<float>& view) : data(view.template as<Element>()) {}  // NOLINT(google-explicit-constructor)

  DRAGONN_HOST_DEVICE float operator[](std::size_t i) const { return widen(data[i]); }
  DRAGONN_HOST_DEVICE Reader operator+(std::size_t offset) const { return {data + offset}; }

  const Element* data;
};

/// An array that is written, and may be read.
template <class Element>
struct Writer {
  /// The place of an element.
  struct Place {
    DRAGONN_HOST_DEVICE operator float() const { return widen(*at); }  // NOLINT(google-explicit-constructor)
    DRAGONN_HOST_DEVICE const Place& operator=(float value) const {
      *at = narrow<Element>(value);
      return *this;
    }
    Element* at;
  };

  DRAGONN_HOST_DEVICE Writer(Element* elements) : data(elements) {}            // NOLINT(google-explicit-constructor)
  Writer(const TypedView<float>& view) : data(view.template as<Element>()) {}  // NOLINT(google-explicit-constructor)

  DRAGONN_HOST_DEVICE Place operator[](std::size_t i) const { return {data + i}; }
  DRAGONN_HOST_DEVICE Writer operator+(std::size_t offset) const { return {data + offset}; }

  Element* data;
};

/// Some neighbouring elements, which move in accesses of up to 16 bytes.
template <class Element, std::size_t kCount>
struct alignas(std::min<std::size_t>(16, sizeof(Element) * kCount)) Pack {
  Element values[kCount];
};

/// The number of elements that a thread moves at a time: 16 bytes of the arrays with the smallest elements.
template <class... Elements>
inline constexpr std::size_t kPackSize = 16 / std::min({sizeof(Elements)...});

/// Returns whether an array may be accessed in packs.
inline bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

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

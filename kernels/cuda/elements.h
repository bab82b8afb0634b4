// SPDX-License-Identifier: MIT
/// Elements: arrays of float32 or bf16 that kernels read and write as float32, one by one or 16 bytes at a time. For
/// .cu files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/device.h"
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

}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
/// TypedView: a view of elements that are float32 or bf16 in memory, and are computed with in float32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/device.h"
#include "core/error.h"
#include "core/view.h"

namespace dragonn::kernels {

/// The bits of a bf16: sign, the exponent of float32, and 7 of its 23 bits of fraction.
using Bf16 = std::uint16_t;

/// Rounds to the nearest bf16; of two that are equally near, to the even one. A NaN stays one.
DRAGONN_HOST_DEVICE constexpr Bf16 to_bf16(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000, kMagnitude = 0x7fffffff, kQuiet = 0x40, kAlmostHalf = 0x7fff;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & kMagnitude) > kInfinity) return static_cast<Bf16>(bits >> 16 | kQuiet);
  return static_cast<Bf16>((bits + kAlmostHalf + (bits >> 16 & 1)) >> 16);
}

DRAGONN_HOST_DEVICE constexpr float from_bf16(Bf16 value) {
  return std::bit_cast<float>(std::uint32_t{value} << 16);
}

/// The type of activations and their gradients in memory.
enum class ElementType : std::uint8_t { kFloat32, kBf16 };

constexpr std::size_t bytes_of(ElementType type) {
  return type == ElementType::kBf16 ? sizeof(Bf16) : sizeof(float);
}
/// Returns the floats of memory that `count` elements take.
constexpr std::size_t floats_of(ElementType type, std::size_t count) {
  return (count * bytes_of(type) + sizeof(float) - 1) / sizeof(float);
}
template <class Element>
inline constexpr ElementType kTypeOf =
    std::is_same_v<std::remove_const_t<Element>, Bf16> ? ElementType::kBf16 : ElementType::kFloat32;

/// A view of `size` contiguous elements of either type on one device. It owns nothing. T is float or const float. Code
/// for one type of element asks for it by data(), host() or as(), which refuse the other type.
template <class T>
class TypedView {
  template <class Element>
  using Same = std::conditional_t<std::is_const_v<T>, const Element, Element>;

 public:
  TypedView() = default;
  TypedView(Same<void>* data, std::size_t size, ElementType type, Device device)
      : data_(data), size_(size), device_(device), type_(type) {}

  /// Converts a view of float32, mutable elements to const ones, too.
  template <class U>
  requires std::is_convertible_v<View<U>, View<T>> TypedView(
      const View<U>& view)  // NOLINT(google-explicit-constructor)
      : TypedView(view.data(), view.size(), ElementType::kFloat32, view.device()) {}
  /// Converts a view of mutable elements to one of const elements.
  template <class U>
  requires(std::is_const_v<T>&& std::is_same_v<std::remove_const_t<T>, U>)
      TypedView(const TypedView<U>& other)  // NOLINT(google-explicit-constructor): as View
      : TypedView(other.raw(), other.size(), other.type(), other.device()) {}

  ElementType type() const { return type_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Device& device() const { return device_; }
  /// The memory, whatever the elements are.
  Same<void>* raw() const { return data_; }

  /// Returns the elements of this type; null if there are none. @throws Error if they are of the other type.
  template <class Element>
  Same<Element>* as() const {
    DRAGONN_CHECK(size_ == 0 || type_ == kTypeOf<Element>, "elements of another type: {} bytes each", bytes_of(type_));
    return static_cast<Same<Element>*>(data_);
  }
  T* data() const { return as<float>(); }
  /// Returns float32 elements as a plain view. @throws Error if they are bf16.
  View<T> floats() const { return {as<float>(), size_, device_}; }
  /// Returns float32 elements, for host code. @throws Error if they are bf16; DeviceError if they are not in host
  /// memory.
  std::span<T> host() const { return floats().host(); }

  TypedView subview(std::size_t offset, std::size_t count) const {
    DRAGONN_CHECK(offset <= size_ && count <= size_ - offset, "subview [{}, {}+{}) of a view of {} elements", offset,
                  offset, count, size_);
    using Byte = Same<std::byte>;
    return {static_cast<Byte*>(data_) + offset * bytes_of(type_), count, type_, device_};
  }

 private:
  Same<void>* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_;
  ElementType type_ = ElementType::kFloat32;
};

/// Calls body(value) with a value of the element's type: float or Bf16.
template <class Body>
void with_element(ElementType type, const Body& body) {
  type == ElementType::kBf16 ? body(Bf16{}) : body(float{});
}

}  // namespace dragonn::kernels

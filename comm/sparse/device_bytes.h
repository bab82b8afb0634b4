// SPDX-License-Identifier: MIT
/// Elements as the bytes that a DeviceTransport moves.
#pragma once

#include <cstddef>

#include "core/buffer.h"
#include "core/view.h"

namespace dragonn::comm {

template <class T>
View<std::byte> bytes_of(View<T> elements) {
  return {reinterpret_cast<std::byte*>(elements.data()), elements.size() * sizeof(T), elements.device()};
}
template <class T>
View<const std::byte> bytes_of(View<const T> elements) {
  return {reinterpret_cast<const std::byte*>(elements.data()), elements.size() * sizeof(T), elements.device()};
}
template <class T>
View<std::byte> bytes_of(Buffer<T>& buffer) {
  return bytes_of(buffer.view());
}
template <class T>
View<const std::byte> bytes_of(const Buffer<T>& buffer) {
  return bytes_of(buffer.view());
}
/// For a rank that sends nothing.
template <class T>
View<const std::byte> no_bytes_of(const Buffer<T>& buffer) {
  return bytes_of(buffer).subview(0, 0);
}

}  // namespace dragonn::comm

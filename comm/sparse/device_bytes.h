// SPDX-License-Identifier: MIT
/// Buffers as the bytes that a DeviceTransport moves.
#pragma once

#include <cstddef>

#include "core/buffer.h"
#include "core/view.h"

namespace dragonn::comm {

template <class T>
View<std::byte> bytes_of(Buffer<T>& buffer) {
  return {reinterpret_cast<std::byte*>(buffer.data()), buffer.size() * sizeof(T), buffer.device()};
}
template <class T>
View<const std::byte> bytes_of(const Buffer<T>& buffer) {
  return {reinterpret_cast<const std::byte*>(buffer.data()), buffer.size() * sizeof(T), buffer.device()};
}
/// For a rank that sends nothing.
template <class T>
View<const std::byte> no_bytes_of(const Buffer<T>& buffer) {
  return bytes_of(buffer).subview(0, 0);
}

}  // namespace dragonn::comm

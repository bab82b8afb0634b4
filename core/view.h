// SPDX-License-Identifier: MIT
/// View<T>: a device-tagged span, so that host code cannot read device memory by accident.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "core/device.h"
#include "core/error.h"

namespace dragonn {

/// A view of `size` contiguous elements that live on `device`. It owns nothing.
template <class T>
class View {
 public:
  View() = default;
  View(T* data, std::size_t size, Device device = {}) : data_(data), size_(size), device_(device) {}

  /// Converts a view of mutable elements to one of const elements.
  template <class U>
  requires(std::is_const_v<T>&& std::is_same_v<std::remove_const_t<T>, U>)
      View(const View<U>& other)  // NOLINT(google-explicit-constructor): as std::span
      : data_(other.data()), size_(other.size()), device_(other.device()) {}

  /// Converts a vector or span of host memory.
  View(std::span<T> host) : data_(host.data()), size_(host.size()) {}  // NOLINT(google-explicit-constructor)

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Device& device() const { return device_; }

  /// Returns the elements, for host code. @throws DeviceError if they are not in host memory.
  std::span<T> host() const {
    if (!device_.is_cpu()) throw DeviceError("host access to memory of device " + to_string(device_));
    return {data_, size_};
  }

  View subview(std::size_t offset, std::size_t count) const {
    DRAGONN_CHECK(offset <= size_ && count <= size_ - offset, "subview [{}, {}+{}) of a view of {} elements", offset,
                  offset, count, size_);
    return View(data_ + offset, count, device_);
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_;
};

}  // namespace dragonn

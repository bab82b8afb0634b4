// SPDX-License-Identifier: MIT
/// Buffer<T>: owned memory of one device, aligned to 64 bytes, not initialized, growing without copies when asked to.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "core/device.h"
#include "core/view.h"

namespace dragonn {

/// How memory of one type of device is had. The CPU's is built in; a device's kernels add theirs.
struct MemoryFunctions {
  void* (*allocate)(std::size_t bytes, const Device& device) = nullptr;
  void (*release)(void* memory, const Device& device) noexcept = nullptr;
};

void register_memory(DeviceType type, MemoryFunctions functions);
/// @throws DeviceError if this build has no such device.
const MemoryFunctions& memory_functions(const Device& device);

/// Memory for `capacity()` trivially copyable elements, of which `size()` are in use. Never initialized, never copied
/// by the device-independent code here.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::size_t size, Device device = {}) : device_(device) { resize_discard(size); }
  ~Buffer() { release(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(device_, other.device_);
  }

  /// Sets the size. The content is lost if the capacity has to grow (by half at least, so that repeated growth is
  /// rare).
  void resize_discard(std::size_t size) {
    if (size > capacity_) {
      const std::size_t capacity = size > capacity_ + capacity_ / 2 ? size : capacity_ + capacity_ / 2;
      release();
      data_ = static_cast<T*>(memory_functions(device_).allocate(capacity * sizeof(T), device_));
      capacity_ = capacity;
    }
    size_ = size;
  }
  /// Shrinks the size, keeping the content.
  void truncate(std::size_t size) {
    DRAGONN_CHECK(size <= size_, "truncate a buffer of {} elements to {}", size_, size);
    size_ = size;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  const Device& device() const { return device_; }

  View<T> view() { return {data_, size_, device_}; }
  View<const T> view() const { return {data_, size_, device_}; }
  /// @throws DeviceError if the memory is not the host's.
  std::span<T> host() { return view().host(); }
  std::span<const T> host() const { return view().host(); }

 private:
  void release() noexcept {
    if (data_ != nullptr) memory_functions(device_).release(data_, device_);
    data_ = nullptr;
    size_ = capacity_ = 0;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  Device device_;
};

}  // namespace dragonn

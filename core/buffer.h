// SPDX-License-Identifier: MIT
/// Buffer<T>: owned memory of one device, aligned to 64 bytes, not initialized, growing without copies when asked to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "core/device.h"
#include "core/view.h"

namespace dragonn {

/// The place of a buffer's memory: a device, or host memory that a device copies from and to by itself (page-locked for
/// a GPU). Host code sees the latter as plain host memory.
struct MemoryPlace {
  MemoryPlace(const Device& where = {}) : device(where) {}  // NOLINT(google-explicit-constructor): a device is a place

  Device device;  ///< the device that reads and writes the memory
  Device copier;  ///< for host memory: the device that copies by itself, or the CPU
  /// Returns the device whose functions allocate the memory.
  const Device& keeper() const { return copier.is_cpu() ? device : copier; }
};

/// Returns the place of host buffers for copies from and to `device`: page-locked memory for a GPU, plain memory for
/// the CPU. Page-locking is slow and takes memory from all programs of the machine, so it is for what is copied in
/// every step.
inline MemoryPlace host_memory_for(const Device& device) {
  MemoryPlace place;
  place.copier = device;
  return place;
}

/// The functions that allocate and release memory.
struct MemoryFunctions {
  void* (*allocate)(std::size_t bytes, const Device& keeper) = nullptr;
  void (*release)(void* memory, const Device& keeper) noexcept = nullptr;
};

/// Registers the functions for memory of one type of device, or for the host memory that it copies by itself. The CPU's
/// are built in; a device's kernels add theirs. Returns the functions registered before.
MemoryFunctions register_memory(DeviceType type, MemoryFunctions functions);
MemoryFunctions register_host_memory(DeviceType copier, MemoryFunctions functions);
/// @throws DeviceError if this build has no such device.
const MemoryFunctions& memory_functions(const MemoryPlace& place);

/// Memory for `capacity()` trivially copyable elements, of which `size()` are in use. The memory is never initialized,
/// and device-independent code never copies it.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::size_t size, const MemoryPlace& place = {}) : place_(place) { resize_discard(size); }
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
    std::swap(place_, other.place_);
  }

  /// Sets the size. The content is lost if the capacity has to grow; it grows by half at least, so that growth is rare.
  void resize_discard(std::size_t size) {
    if (size > capacity_) {
      const std::size_t capacity = size > capacity_ + capacity_ / 2 ? size : capacity_ + capacity_ / 2;
      release();
      data_ = static_cast<T*>(memory_functions(place_).allocate(capacity * sizeof(T), place_.keeper()));
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
  const Device& device() const { return place_.device; }

  View<T> view() { return {data_, size_, device()}; }
  View<const T> view() const { return {data_, size_, device()}; }
  /// Returns the elements, for host code. @throws DeviceError if they are not in host memory.
  std::span<T> host() { return view().host(); }
  std::span<const T> host() const { return view().host(); }

 private:
  void release() noexcept {
    if (data_ != nullptr) memory_functions(place_).release(data_, place_.keeper());
    data_ = nullptr;
    size_ = capacity_ = 0;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  MemoryPlace place_;
};

/// Resizes as resize_discard does, but grows to twice the needed size (at most `limit` elements): the sizes of
/// selections differ a little between steps and must not allocate in every other one. Memory that is never touched is
/// never backed by pages.
template <class T>
void resize_with_slack(Buffer<T>& buffer, std::size_t size,
                       std::size_t limit = std::numeric_limits<std::size_t>::max()) {
  if (size > buffer.capacity()) buffer.resize_discard(std::max(size, std::min(2 * size, limit)));
  buffer.resize_discard(size);
}

}  // namespace dragonn

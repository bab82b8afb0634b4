// SPDX-License-Identifier: MIT
/// HeldBytes: the host memory that Buffers hold.
#pragma once

#include <map>
#include <mutex>

#include "core/buffer.h"

namespace dragonn::testing {

/// Adds up the host memory of Buffers that are allocated while it lives. One at a time; made and destroyed while no
/// other thread uses Buffers.
class HeldBytes {
 public:
  HeldBytes() {
    wrapped() = register_memory(DeviceType::kCpu, {});
    sizes().clear();
    register_memory(DeviceType::kCpu, {allocate, release});
  }
  ~HeldBytes() { register_memory(DeviceType::kCpu, wrapped()); }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  static double now() {
    const std::lock_guard lock(mutex());
    double sum = 0;
    for (const auto& [memory, bytes] : sizes()) sum += static_cast<double>(bytes);
    return sum;
  }

 private:
  static MemoryFunctions& wrapped() {
    static MemoryFunctions functions;
    return functions;
  }
  static std::map<void*, std::size_t>& sizes() {
    static std::map<void*, std::size_t> map;
    return map;
  }
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static void* allocate(std::size_t bytes, const Device& keeper) {
    void* memory = wrapped().allocate(bytes, keeper);
    const std::lock_guard lock(mutex());
    sizes()[memory] = bytes;
    return memory;
  }
  static void release(void* memory, const Device& keeper) noexcept {
    {
      const std::lock_guard lock(mutex());
      sizes().erase(memory);
    }
    wrapped().release(memory, keeper);
  }
};

}  // namespace dragonn::testing

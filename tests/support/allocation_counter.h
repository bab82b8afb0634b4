// SPDX-License-Identifier: MIT
/// AllocationCounter: counts heap allocations of a test program. Linking allocation_counter.cpp replaces operator new.
#pragma once

#include <cstddef>

namespace dragonn::testing {

/// Counts calls of operator new, unless oneDNN made them, and allocations of Buffers of any device, while it lives. One
/// at a time; made and destroyed while no other thread uses Buffers.
class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

  /// Returns the count of all threads. It only grows; compare two readings.
  static std::size_t count();
  /// Returns the count of the calling thread.
  static std::size_t count_of_thread();
};

}  // namespace dragonn::testing

// SPDX-License-Identifier: MIT
/// Counts heap allocations of a test program. Linking allocation_counter.cpp replaces its operator new.
#pragma once

#include <cstddef>

namespace dragonn::testing {

/// While one lives, calls of operator new are counted unless oneDNN made them, and what Buffers of any device ask for.
/// One at a time; made and destroyed while no other thread uses Buffers.
class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

  /// Of all threads. Grows only; compare two readings.
  static std::size_t count();
  /// Of the calling thread.
  static std::size_t count_of_thread();
};

}  // namespace dragonn::testing

// SPDX-License-Identifier: MIT
/// Counts heap allocations of a test program. Linking allocation_counter.cpp replaces its operator new.
#pragma once

#include <cstddef>

namespace dragonn::testing {

/// Allocations so far, of all threads: calls of operator new that were not made inside oneDNN, and memory that
/// Buffers asked for.
std::size_t allocations();
/// The same, of the calling thread alone.
std::size_t thread_allocations();

/// Also counts what Buffers allocate while it lives. Not while other threads make their first Buffer.
class CountBuffers {
 public:
  CountBuffers();
  ~CountBuffers();
  CountBuffers(const CountBuffers&) = delete;
  CountBuffers& operator=(const CountBuffers&) = delete;
};

}  // namespace dragonn::testing

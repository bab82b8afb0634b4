// SPDX-License-Identifier: MIT
/// SweepCount: the number of gradient elements that passes read, for benchmarks and tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dragonn::kernels {

/// Counts the elements read by passes over whole gradients (and samples of them) that this thread starts while the
/// object lives; of nested ones the innermost counts. Work on entries that were selected before does not count. It
/// costs one addition per pass. Returning counts instead would pass through the interface of every sparsifier and
/// memory.
class SweepCount {
 public:
  SweepCount();
  ~SweepCount();
  SweepCount(const SweepCount&) = delete;
  SweepCount& operator=(const SweepCount&) = delete;

  std::uint64_t elements() const { return elements_; }

 private:
  friend void count_swept(std::size_t elements);

  std::uint64_t elements_ = 0;
  SweepCount* outer_;
};

/// Adds to the innermost count. Every pass calls it once, on the thread that starts it.
void count_swept(std::size_t elements);

}  // namespace dragonn::kernels

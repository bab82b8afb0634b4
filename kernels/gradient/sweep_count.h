// SPDX-License-Identifier: MIT
/// SweepCount: how many elements of gradients the passes read, for benchmarks and tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dragonn::kernels {

/// Counts the elements that the passes over whole gradients (and over samples of them) read which this thread starts
/// while the object lives; of nested ones the innermost counts. Work on entries that were selected before does not
/// count. Costs one addition per pass: a count that was handed down instead would have to go through the interface of
/// every sparsifier and memory.
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

/// What every pass calls once, on the thread that starts it.
void count_swept(std::size_t elements);

}  // namespace dragonn::kernels

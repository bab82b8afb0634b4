// SPDX-License-Identifier: MIT
/// Timing: seconds of a piece of work.
#pragma once

#include <chrono>

namespace dragonn::bench {

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace dragonn::bench

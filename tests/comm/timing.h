// SPDX-License-Identifier: MIT
/// Timing: helpers for tests that depend on order and on deadlines, but on no machine's speed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <thread>

namespace dragonn::comm::test {

/// Waits until the condition holds, which another thread brings about; throws after a minute, which is long on any
/// machine.
inline void await(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) throw std::runtime_error("what is waited for does not come");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Returns a deadline in seconds of at least `min` that is much longer than `work` takes on this machine now: a rank
/// that waits for a processor must not be taken for one that hangs.
inline double deadline_beside(double min, const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return std::max(min, std::ceil(20 * taken.count()));
}

}  // namespace dragonn::comm::test

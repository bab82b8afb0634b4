// SPDX-License-Identifier: MIT
/// Deadline: the end of a wait.
#pragma once

#include <algorithm>
#include <chrono>

namespace dragonn::comm {

/// A time at which a wait ends. It is wall time even if the communicator's clock is virtual.
using Deadline = std::chrono::steady_clock::time_point;

/// Returns the time `seconds` from now, at most about thirty years, so that a huge timeout does not overflow the clock.
inline Deadline deadline_after(double seconds) {
  constexpr double kLongest = 1e9;
  const std::chrono::duration<double> wait(std::clamp(seconds, 0.0, kLongest));
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
}

}  // namespace dragonn::comm

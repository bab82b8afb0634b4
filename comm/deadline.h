// SPDX-License-Identifier: MIT
/// Deadline: the end of a wait; RunningDeadline: one that waits for a process which was suspended.
#pragma once

#include <algorithm>
#include <chrono>

#include "core/error.h"

namespace dragonn::comm {

/// A time at which a wait ends. It is wall time even if the communicator's clock is virtual.
using Deadline = std::chrono::steady_clock::time_point;

/// Returns the time `seconds` from now, at most about thirty years, so that a huge timeout does not overflow the clock.
inline Deadline deadline_after(double seconds) {
  constexpr double kLongest = 1e9;
  const std::chrono::duration<double> wait(std::clamp(seconds, 0.0, kLongest));
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
}

/// Returns the time until then as poll() takes it: milliseconds, rounded up, at least 0 and at most an hour.
inline int milliseconds_until(Deadline deadline) {
  constexpr std::chrono::milliseconds kLongest{3'600'000};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kLongest).count());
}

/// A rank waited until its deadline. A rank that learns of it from another one gets a CommError.
class TimeoutError : public CommError {
  using CommError::CommError;
};

/// A deadline in the time during which this process runs. A wait looks at it often; where it wakes much later than it
/// wanted, the process was suspended (SIGSTOP, a paused virtual machine), which says nothing about its peers, and the
/// deadline moves back by that time.
class RunningDeadline {
 public:
  using Seconds = std::chrono::duration<double>;
  static constexpr Seconds kSuspended{1.0};  ///< a look that is this late means a suspension

  /// @param interval seconds from one look to the next.
  RunningDeadline(Deadline end, double interval = 0.1)
      : end_(end), look_(end), interval_(interval) {}  // NOLINT: implicit

  /// Returns the time until which to wait before is_over is asked.
  Deadline next_look(Deadline now = std::chrono::steady_clock::now()) {
    look_ = std::min(end_, now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(interval_));
    return look_;
  }
  /// Returns whether the wait has ended. Called at each look.
  bool is_over(Deadline now = std::chrono::steady_clock::now()) {
    if (now - look_ >= kSuspended) end_ += now - look_;
    return now >= end_;
  }

 private:
  Deadline end_;
  Deadline look_;
  Seconds interval_;
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// DescribedTime: work that takes a described time on a virtual cluster, whatever it takes here.
#pragma once

#include <optional>

#include "core/clock.h"

namespace dragonn::trainer {

/// Lets the work of a scope take a described time, in the place of what its clock would count. A wall clock goes on.
class DescribedTime {
 public:
  /// @param clock of the calling thread.  @param seconds 0: the work takes what the clock counts.
  DescribedTime(Clock& clock, double seconds) : clock_(clock), seconds_(seconds) {
    if (seconds == 0) return;
    begin_ = clock.moment();
    pause_.emplace(clock);
  }
  ~DescribedTime() { reach(1); }
  DescribedTime(const DescribedTime&) = delete;
  DescribedTime& operator=(const DescribedTime&) = delete;

  /// Tells that a share of the work is done, in [0, 1].
  void reach(double share) {
    const double passed = share * seconds_;
    if (pause_) clock_.advance_to({begin_.seconds + passed, begin_.ideal + passed});
  }

 private:
  Clock& clock_;
  double seconds_;
  Moment begin_;
  std::optional<ClockPause> pause_;
};

}  // namespace dragonn::trainer

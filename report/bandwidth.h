// SPDX-License-Identifier: MIT
/// Bandwidth: the time to target on networks of other bandwidths, and where a run pays against the dense one.
#pragma once

#include <optional>
#include <string>

#include "report/compare.h"

namespace dragonn::report {

/// Time to target as a function of the bandwidth. Computed, not measured: from the time on an ideal network, which is
/// compute, and the time on the described one, which comes from counted bytes and messages.
struct TimeModel {
  double ideal = 0;     ///< seconds on a network that takes no time
  double latency = 0;   ///< seconds that a worker's messages travel, at every bandwidth
  double gigabits = 0;  ///< 10^9 bits that the exchanges wait for, one after the other; the busiest worker's or more

  double fixed() const { return ideal + latency; }
  double seconds(double gbps) const { return fixed() + gigabits / gbps; }
};

/// Of one run. Of the seconds that the described network takes, time - time_ideal, as many as a worker's messages times
/// the latency are latency, and the others times the bandwidth are the gigabits. Bytes that a worker sends would be too
/// few: in a tree the root waits for those of several workers, one after the other. Absent without the target, the
/// ideal time or the bandwidth.
std::optional<TimeModel> time_model(const Run& run, const RunResult& result);
/// The mean over the runs of a group; absent unless all have one.
std::optional<TimeModel> time_model(const Group& group);

/// The bandwidths at which a run reaches the target sooner than the dense one.
struct BreakEven {
  enum class Pays { kBelow, kAbove, kAlways, kNever };
  Pays pays = Pays::kNever;
  double gbps = 0;  ///< of kBelow and kAbove: where both take the same time

  std::string text() const;  ///< "below 420 Mbit/s", "at every bandwidth"
};
BreakEven break_even(const TimeModel& run, const TimeModel& dense);

/// Of a group against the dense one; absent for the dense one, or where one of the two has no model.
std::optional<BreakEven> break_even(const Comparison& comparison, const Group& group);

/// The bandwidths of the chart: 1 Mbit/s to 100 Gbit/s.
inline constexpr double kLowestGbps = 1e-3, kHighestGbps = 100;

}  // namespace dragonn::report

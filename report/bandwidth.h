// SPDX-License-Identifier: MIT
/// Bandwidth: the time to target on networks of other bandwidths, and where a run pays against the dense one.
#pragma once

#include <optional>
#include <string>

#include "report/compare.h"

namespace dragonn::report {

/// Time to target as a function of the bandwidth. Computed, not measured: from counted bytes, the time on an ideal
/// network and the time on the described one.
struct TimeModel {
  double ideal = 0;    ///< seconds on a network that takes no time
  double latency = 0;  ///< seconds on the described network that the bytes do not explain; kept at every bandwidth
  double bytes = 0;    ///< sent by a worker up to the target

  double fixed() const { return ideal + latency; }
  double seconds(double gbps) const { return fixed() + bytes * 8 / (gbps * 1e9); }
};

/// Of one run: latency is max(0, time - time_ideal - bytes * 8 / bandwidth) on the described network. Absent without
/// the target, the ideal time or the bandwidth.
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

// SPDX-License-Identifier: MIT
/// Bandwidth: the time to target on networks of other bandwidths, and the bandwidths at which a run pays.
#pragma once

#include <optional>
#include <string>

#include "report/compare.h"

namespace dragonn::report {

/// Time to target as a function of the bandwidth. It is computed, not measured: from the time on an ideal network,
/// which is compute, and the time on the described one, which follows from counted bytes and messages.
struct TimeModel {
  double ideal = 0;     ///< seconds on a network that takes no time
  double latency = 0;   ///< seconds of latency that a worker's messages take, at every bandwidth
  double gigabits = 0;  ///< 10^9 bits that the exchanges wait for in sequence: the busiest worker's, or more

  double fixed() const { return ideal + latency; }
  double seconds(double gbps) const { return fixed() + gigabits / gbps; }
};

/// Returns the model of one run. The described network takes time - time_ideal seconds. A worker's messages times the
/// latency is the latency's share; the rest times the bandwidth is the gigabits. The bytes that a worker sends would be
/// too few: in a tree the root waits for the bytes of several workers, one after the other. Absent without the target,
/// the ideal time or the bandwidth.
std::optional<TimeModel> time_model(const Run& run, const RunResult& result);
/// Returns the mean over the runs of a group; absent unless all have one.
std::optional<TimeModel> time_model(const Group& group);

/// The bandwidths at which a run reaches the target sooner than the dense one.
struct BreakEven {
  enum class Pays { kBelow, kAbove, kAlways, kNever };
  Pays pays = Pays::kNever;
  double gbps = 0;  ///< for kBelow and kAbove: where both take the same time

  std::string text() const;  ///< "below 420 Mbit/s", "at every bandwidth"
};
/// The names of BreakEven::Pays, in its order.
inline constexpr const char* kPaysNames[] = {"below", "above", "always", "never"};

BreakEven break_even(const TimeModel& run, const TimeModel& dense);

/// Compares a group, or one run of it, with the dense group. Absent for the dense group, or if one of the two has no
/// model.
std::optional<BreakEven> break_even(const Comparison& comparison, const Group& group,
                                    const std::optional<TimeModel>& model);
inline std::optional<BreakEven> break_even(const Comparison& comparison, const Group& group) {
  return break_even(comparison, group, time_model(group));
}

/// The bandwidths of the chart: 1 Mbit/s to 100 Gbit/s.
inline constexpr double kLowestGbps = 1e-3, kHighestGbps = 100;

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// Curves: the lines of the charts, with the runs of a group joined.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/compare.h"

namespace dragonn::report {

/// Points with ascending steps: their places (means over the runs), and mean and extremes of the value.
struct Curve {
  std::vector<double> step, epoch, time, bytes;
  std::vector<double> mean, low, high;
  std::vector<double> time_ideal;  ///< empty unless every run has it at every point

  bool empty() const { return step.empty(); }
};

/// Curves with more points than this are thinned: neighbours become one point, a mean of values and places.
inline constexpr std::size_t kMaxPoints = 600;

/// Returns the metric at evaluations.
Curve metric_curve(const Group& group, const Metric& metric);
/// Returns one of the numbers of step lines, such as the training loss, at the steps that all runs of the group logged.
Curve step_curve(const Group& group, std::optional<double> StepPoint::*number);

/// Threshold and residual norm, at step lines that have both. Source: ExDyna (2024), Fig. 10.
struct ThresholdTrace {
  Curve threshold;
  Curve error;  ///< the norm, scaled so that its mean equals that of the thresholds
};
ThresholdTrace threshold_trace(const Group& group);

/// Returns the seconds of a step by verb, mean over step lines and runs. The first line of a run is left out if there
/// are more: it contains one-time set-up.
std::map<std::string, double> seconds_by_part(std::span<const Run> runs);

/// The cost of selecting entries: compensate and select, which are one pass in some methods and two in others.
struct SelectCost {
  double seconds = 0;  ///< per step
  double share = 0;    ///< of all parts of a step
};
/// Returns the cost; absent if the lines have no seconds.
std::optional<SelectCost> select_cost(std::span<const Run> runs);

}  // namespace dragonn::report

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

/// Points with ascending steps: where they stand (means over the runs), and mean and extremes of the value.
struct Curve {
  std::vector<double> step, epoch, time, bytes;
  std::vector<double> mean, low, high;
  std::vector<double> time_ideal;  ///< empty unless every run has it at every point

  bool empty() const { return step.empty(); }
};

/// More points than this are thinned: neighbours share one point, a mean of values and places.
inline constexpr std::size_t kMaxPoints = 600;

/// Training loss. A group's curve has the steps that all its runs logged.
Curve loss_curve(const Group& group);
/// The metric at evaluations.
Curve metric_curve(const Group& group, const Metric& metric);
/// One of the numbers of step lines.
Curve step_curve(const Group& group, std::optional<double> StepPoint::*number);

/// Threshold and residual norm where a step line has both. Source: ExDyna (2024), Fig. 10.
struct ThresholdTrace {
  Curve threshold;
  Curve error;  ///< the norm, times the sum of the thresholds over the sum of the norms: both have one mean
};
ThresholdTrace threshold_trace(const Group& group);

/// Seconds of a step by verb, mean over step lines and runs. The first line of a run is left out where there are more:
/// it holds what is set up once.
std::map<std::string, double> seconds_by_verb(std::span<const Run> runs);

/// What choosing entries costs: compensate and select, which are one pass in some methods and two in others.
struct SelectCost {
  double seconds = 0;  ///< of a step
  double share = 0;    ///< of all parts of a step
};
/// Absent where the lines have no seconds.
std::optional<SelectCost> select_cost(std::span<const Run> runs);

}  // namespace dragonn::report

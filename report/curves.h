// SPDX-License-Identifier: MIT
/// Curves: the lines of the charts, with the runs of a group joined.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "report/compare.h"

namespace dragonn::report {

/// Points with ascending steps: where they stand (means over the runs), and mean and extremes of the value.
struct Curve {
  std::vector<double> step, epoch, time, bytes;
  std::vector<double> mean, low, high;

  bool empty() const { return step.empty(); }
};

/// More points than this are thinned: neighbours share one point, a mean of values and places.
inline constexpr std::size_t kMaxPoints = 1500;

/// Training loss. A group's curve has the steps that all its runs logged.
Curve loss_curve(const Group& group);
/// The metric at evaluations.
Curve metric_curve(const Group& group, const Metric& metric);
/// One of the density_* numbers of step lines.
Curve density_curve(const Group& group, std::optional<double> StepPoint::*number);

/// Seconds of a step by verb, mean over step lines and runs. The first line of a run is left out where there are more:
/// it holds what is set up once.
std::map<std::string, double> seconds_by_verb(const Group& group);

}  // namespace dragonn::report

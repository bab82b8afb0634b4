// SPDX-License-Identifier: MIT
/// Compares runs: what each reached, how fast and with how much traffic, with repeated seeds taken together.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/run.h"

namespace dragonn::report {

/// What evaluations are judged by.
struct Metric {
  std::string key;    ///< "accuracy"
  std::string label;  ///< "Test accuracy"
  bool higher_is_better = true;
  bool is_share = true;  ///< in [0, 1], shown in percent

  bool reaches(double value, double target) const { return higher_is_better ? value >= target : value <= target; }
};

/// The first metric of a fixed list (accuracy first) that some run reports; "loss" if there is none.
Metric choose_metric(std::span<const Run> runs);
/// The value of a metric, the loss included.
std::optional<double> value_of(const EvalPoint& point, const Metric& metric);

/// Where a run first was at the target or better.
struct Reached {
  double step = 0;
  double time = 0;   ///< seconds
  double bytes = 0;  ///< sent by a worker
};

/// The numbers of one run. Absent: not in its files, or never reached.
struct RunResult {
  std::optional<double> final_metric, best_metric, best_epoch, final_loss;
  std::optional<Reached> to_target;
  std::optional<double> throughput;      ///< samples per second, all workers
  std::optional<double> bytes_per_step;  ///< sent by a worker, mean over steps
  std::optional<double> bytes_total;     ///< sent by a worker
  std::optional<double> density;         ///< mean over steps
  std::optional<double> steps, seconds;
};

RunResult evaluate_run(const Run& run, const Metric& metric, std::optional<double> target);

/// The first evaluation at `target` or better.
std::optional<Reached> time_to_target(const Run& run, const Metric& metric, double target);

/// Mean and extremes over the runs of a group that have the number.
struct Spread {
  double mean = 0, low = 0, high = 0;
  std::size_t count = 0;
};
std::optional<Spread> spread(std::span<const std::optional<double>> values);

/// Runs that share everything but the seed (and where data lies, how often was logged and saved).
struct Group {
  std::string label;
  std::vector<Run> runs;
  std::vector<RunResult> results;  ///< of `runs`
  bool is_dense = false;

  /// Of one number of the results.
  std::optional<Spread> spread_of(std::optional<double> RunResult::*number) const;
  /// Of one number of where the runs reached the target; absent unless all of them did.
  std::optional<Spread> spread_to_target(double Reached::*number) const;
};

/// A config key on which the groups differ, with each group's value ("" where a group does not have it).
struct Difference {
  std::string key;
  std::vector<std::string> values;
};

struct Comparison {
  Metric metric;
  std::optional<double> target;
  std::string target_reason;         ///< where the target comes from, for the reader
  std::vector<Group> groups;         ///< in the order of the runs given
  std::optional<std::size_t> dense;  ///< the group that the others are compared with
  std::vector<Difference> differences;
  std::vector<std::string> warnings;  ///< each with the run's name
};

/// The share of the reference run's final metric that a run has to reach where no target is given.
inline constexpr double kTargetShare = 0.95;

/// `target` in the metric's own unit (0.65, not 65); without it, kTargetShare of the dense runs' mean final metric (of
/// the best group's, if no run is dense; divided instead of multiplied where lower is better).
/// @throws ConfigError without runs, or when a folder is given twice.
Comparison compare(std::vector<Run> runs, std::optional<double> target = {});

}  // namespace dragonn::report

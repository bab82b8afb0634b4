// SPDX-License-Identifier: MIT
/// Compares runs: what each reached, how fast and with how much traffic, with repeated seeds taken together.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/run.h"
#include "report/spread.h"

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
  double time = 0;                   ///< seconds
  double bytes = 0;                  ///< sent by a worker
  std::optional<double> time_ideal;  ///< seconds, had the network taken no time
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
  std::optional<double> seconds_ideal;  ///< up to the last step line, had the network taken no time
};

RunResult evaluate_run(const Run& run, const Metric& metric, std::optional<double> target);

/// The first evaluation at `target` or better.
std::optional<Reached> time_to_target(const Run& run, const Metric& metric, double target);

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
  std::optional<Spread> spread_to_target(std::optional<double> Reached::*number) const;
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

/// The share of the reference run's final metric that a run has to reach where nothing is given.
inline constexpr double kTargetShare = 0.95;

struct CompareOptions {
  /// In the metric's own unit (0.65, not 65). Without it the target is `target_share` of the dense runs' mean final
  /// metric (of the best group's, if no run is dense; divided instead of multiplied where lower is better).
  std::optional<double> target = {};
  double target_share = kTargetShare;  ///< in (0, 1]
  bool allow_different_tasks = false;  ///< else runs of several models or data sets are refused
};

/// @throws ConfigError without runs, when a folder is given twice, for runs of different tasks and for a target that
/// the metric cannot have.
Comparison compare(std::vector<Run> runs, const CompareOptions& options = {});

}  // namespace dragonn::report

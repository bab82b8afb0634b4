// SPDX-License-Identifier: MIT
/// Comparison: the results of runs, their speed and their traffic, with repeated seeds taken together.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/run.h"
#include "report/statistics.h"

namespace dragonn::report {

/// The quality that evaluations are judged by.
struct Metric {
  std::string key;    ///< "accuracy"
  std::string label;  ///< "Test accuracy"
  bool higher_is_better = true;
  bool is_share = true;  ///< the value is in [0, 1] and shown in percent

  bool reaches(double value, double target) const { return higher_is_better ? value >= target : value <= target; }
};

/// Returns the first metric of a fixed list (accuracy first) that some run reports; "loss" if there is none.
Metric choose_metric(std::span<const Run> runs);
/// Returns the value of a metric; the loss is one, too.
std::optional<double> value_of(const EvalPoint& point, const Metric& metric);

/// The first point at which a run reached the target. Only the ideal time may be absent.
struct Reached {
  std::optional<double> step;
  std::optional<double> time;        ///< seconds
  std::optional<double> bytes;       ///< sent by a worker
  std::optional<double> time_ideal;  ///< seconds, if the network took no time
};

/// The numbers of one run. A number is absent if the run's files lack it, or if it was never reached.
struct RunResult {
  std::optional<double> final_metric, best_metric, best_epoch, final_loss;
  std::optional<Reached> to_target;
  std::optional<double> throughput;      ///< samples per second, all workers
  std::optional<double> bytes_per_step;  ///< sent by a worker, mean over steps
  std::optional<double> bytes_total;     ///< sent by a worker
  std::optional<double> density;         ///< mean over steps
  std::optional<double> bits_per_entry;  ///< of lists in messages, mean over steps
  std::optional<double> steps, seconds;
  std::optional<double> seconds_ideal;  ///< up to the last step line, if the network took no time
};

RunResult evaluate_run(const Run& run, const Metric& metric, std::optional<double> target);

/// Returns the first evaluation at `target` or better.
std::optional<Reached> time_to_target(const Run& run, const Metric& metric, double target);

/// The mean over the step lines that have the number.
std::optional<double> mean_of_steps(const Run& run, std::optional<double> StepPoint::*number);

/// Runs that share everything but the seed (and incidental keys: data paths, intervals of logs and checkpoints).
struct Group {
  std::string label;
  std::vector<Run> runs;
  std::vector<RunResult> results;  ///< in the order of `runs`
  bool is_dense = false;

  /// Returns the spread of one number of the results.
  std::optional<Spread> spread_of(std::optional<double> RunResult::*number) const;
  /// Returns the spread of one number of the runs' arrivals at the target; absent unless all runs reached it and have
  /// the number.
  std::optional<Spread> spread_of(std::optional<double> Reached::*number) const;
};

/// A config key on which the groups differ, with each group's value ("" if a group does not have it).
struct Difference {
  std::string key;
  std::vector<std::string> values;
};

struct Comparison {
  Metric metric;
  std::optional<double> target;
  std::string target_reason;         ///< origin of the target, for the reader
  std::vector<Group> groups;         ///< in the order of the runs given
  std::optional<std::size_t> dense;  ///< the group that the others are compared with
  std::vector<Difference> differences;
  std::vector<std::string> warnings;  ///< each names its run

  /// Null without one.
  const Group* dense_group() const { return dense ? &groups[*dense] : nullptr; }
};

/// Calls use(run) for every run of every group.
template <class Use>
void for_each_run(const Comparison& comparison, Use use) {
  for (const Group& group : comparison.groups)
    for (const Run& run : group.runs) use(run);
}

/// The default share of the reference run's final metric that a run has to reach.
inline constexpr double kTargetShare = 0.95;

struct CompareOptions {
  /// The target in the metric's own unit (0.65, not 65). If absent it is `target_share` of the dense runs' mean final
  /// metric (of the best group's, if no run is dense; divided instead of multiplied if lower is better).
  std::optional<double> target = {};
  double target_share = kTargetShare;  ///< in (0, 1]
  bool allow_different_tasks = false;  ///< otherwise runs of several models or data sets are refused
};

/// Compares runs. @throws ConfigError without runs, when a folder is given twice, for runs of different tasks, and for
/// a target that the metric cannot have.
Comparison compare(std::vector<Run> runs, const CompareOptions& options = {});

}  // namespace dragonn::report

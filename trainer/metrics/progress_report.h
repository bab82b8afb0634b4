// SPDX-License-Identifier: MIT
/// ProgressReport: reports a run's progress to the terminal and the log, from the first step on; on rank 0.
#pragma once

#include <cstdint>
#include <limits>

#include "core/clock.h"
#include "trainer/metrics/metrics.h"
#include "trainer/metrics/progress_line.h"
#include "trainer/metrics/step_times.h"

namespace dragonn::trainer {

class ProgressReport {
 public:
  struct Run {
    std::uint64_t first_step = 0;  ///< steps done before
    std::uint64_t total_steps = 0;
    std::int64_t total_epochs = 0;
    bool is_time_virtual = false;
    bool overlaps = false;  ///< buckets are exchanged during backward
  };

  /// Shows at once that the first step is running.
  explicit ProgressReport(const Run& run);

  /// Shows the progress line by rank 0's own numbers, a few times a second at most. Called after every step.
  void step(std::uint64_t step, double epoch, double samples_per_second, const StepSample& mine);
  /// Shows the progress line likewise, and logs a line once an epoch and every ten seconds at most. Called after a
  /// step() whose numbers were reduced over the ranks.
  void record(const StepRecord& record);

  /// The times of rank 0, for all steps so far.
  const StepTimes& times() const { return times_; }
  std::uint64_t first_step() const { return run_.first_step; }
  /// Returns the wall time since the report began.
  double wall_seconds() const { return clock_.now(); }

 private:
  void show();

  static constexpr double kLineSeconds = 0.25;
  static constexpr double kNoteSeconds = 10;

  Run run_;
  WallClock clock_;
  StepTimes times_;
  ProgressNumbers numbers_;
  bool knows_bytes_ = false;  ///< bytes are the mean over ranks, from a record
  double shown_at_ = -std::numeric_limits<double>::infinity();
  double noted_at_ = 0;
  double noted_epoch_ = 0;
};

}  // namespace dragonn::trainer

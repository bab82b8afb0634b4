// SPDX-License-Identifier: MIT
/// ProgressReport: tells a person how a run goes on, from its first step on; on rank 0.
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
    std::uint64_t first_step = 0;  ///< done before
    std::uint64_t total_steps = 0;
    std::int64_t total_epochs = 0;
    bool is_time_virtual = false;
    bool overlaps = false;  ///< buckets are exchanged while backward goes on
  };

  /// Shows at once that the first step is under way.
  explicit ProgressReport(const Run& run);

  /// After every step, by rank 0's own numbers: the progress line, a few times a second at most.
  void step(std::uint64_t step, double epoch, double samples_per_second, const StepSample& mine);
  /// After a step() whose numbers were reduced over the ranks: the progress line likewise, and a line in the log once
  /// an epoch and every ten seconds at most.
  void record(const StepRecord& record);

  /// Rank 0's, of all steps so far.
  const StepTimes& times() const { return times_; }
  std::uint64_t first_step() const { return run_.first_step; }
  /// Since the report began.
  double wall_seconds() const { return clock_.now(); }

 private:
  void show();

  static constexpr double kLineSeconds = 0.25;
  static constexpr double kNoteSeconds = 10;

  Run run_;
  WallClock clock_;
  StepTimes times_;
  ProgressNumbers numbers_;
  bool knows_bytes_ = false;  ///< the mean over ranks, from a record
  double shown_at_ = -std::numeric_limits<double>::infinity();
  double noted_at_ = 0;
  double noted_epoch_ = 0;
};

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// RunRecorder: what a training run tells: metrics, progress, timeline, dumps, warnings, advice and the summary.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/metrics/metrics.h"
#include "trainer/metrics/progress_report.h"
#include "trainer/metrics/step_timeline.h"
#include "trainer/metrics/summary.h"
#include "trainer/run/generation.h"
#include "trainer/run/gradient_dump.h"
#include "trainer/run/job.h"
#include "trainer/run/plan.h"
#include "trainer/run/traffic_check.h"

namespace dragonn::trainer {

/// Records the steps of one generation. All ranks call its methods alike, as many reduce numbers over them; rank 0
/// alone may warn().
class RunRecorder {
 public:
  /// All arguments outlive the recorder.
  RunRecorder(const Job& job, const RunPlan& plan, Generation& generation);

  /// Opens the run's files and logs its warnings; called before the first step, and after any resume.
  void begin();
  /// Lets the calling thread record the next step while the result lives, if it is one of the timeline's.
  [[nodiscard]] ScopedRecording record_timeline();
  /// Returns the place for the next step's accumulated gradient (ExchangeStep::accumulated), and writes it.
  View<float> dump_target() { return dump_.target(next_step()); }
  void write_dump();
  /// Compares the bytes of the step that is done with those that the advice takes; corrects the advice in one line if
  /// they differ.
  void check_traffic(const StepValues& values, const StepOutcome& outcome);
  /// Shows the step that is done, and writes a line of metrics where one is due.
  void record_step(const StepValues& values, const StepOutcome& outcome);
  /// Writes the last evaluation.
  void record_evaluation();
  /// Writes the timeline when its last step, or the run's, is done.
  void end_step(bool is_last_of_run);
  /// Writes the summary of a run that is done. @param hash of the parameters.
  void finish(std::uint64_t hash);

  /// Logs a warning on rank 0, and keeps it for the summary.
  void warn(const std::string& warning);
  /// Reports the advice in one line; dry runs show the table.
  void log_advice();

 private:
  std::uint64_t next_step() const { return state_.progress.step + 1; }
  void begin_traffic_check();
  /// Writes a histogram of all ranks' residuals for TensorBoard, if the run writes for it.
  void record_residuals();
  void warn_if_traffic_exceeds_dense(const StepRecord& record);
  bool was_warned_of(const std::string& warning) const {
    return std::ranges::count(state_.progress.warnings, warning) > 0;
  }
  bool has_advice() const;
  /// Logs a line that ends in this advice; a warning if dense is faster.
  void tell(const std::string& text, const StepAdvice& advice);
  Summary summary(std::uint64_t hash, double bytes_sent, Moment time) const;

  const RunSpec& config_;
  const RunFolder& folder_;
  const RunPlan& plan_;
  const std::vector<std::string>& data_warnings_;
  Generation& generation_;
  TrainingState& state_;
  comm::Communicator& communicator_;
  GradientDump dump_;
  std::unique_ptr<MetricsWriter> metrics_;     // rank 0 only, from begin() on
  std::unique_ptr<ProgressReport> report_;     // likewise
  std::unique_ptr<StepTimeline> timeline_;     // null without logging.trace, and before begin()
  ByteForecast predicted_;           // of a step at the target density
  std::optional<TrafficCheck> traffic_check_;  // where ranks exchange selections
};

}  // namespace dragonn::trainer

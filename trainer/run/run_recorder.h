// SPDX-License-Identifier: MIT
/// RunRecorder: what a training run tells: metrics, progress, timeline, dumps, warnings, advice and the summary.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "core/view.h"
#include "exchange/exchange_plan.h"
#include "exchange/gradient_exchange.h"
#include "trainer/metrics/metrics.h"
#include "trainer/metrics/run_report.h"
#include "trainer/metrics/step_timeline.h"
#include "trainer/run/generation.h"
#include "trainer/run/plan.h"
#include "trainer/run/run.h"

namespace dragonn::trainer {

/// Writes the gradients of logging.dump_gradients: one file per step and rank, FOLDER/step-00000120-rank-0000.npy:
/// [numel] float32, acc after compensate and before select. Costs numel floats of memory if some step is named, and a
/// copy and a file at those steps.
class GradientDump {
 public:
  /// @param steps count from 1.  @param numel elements of the exchanged buckets that are dumped
  /// (GradientExchange::dump_size).
  GradientDump(std::filesystem::path folder, std::vector<std::int64_t> steps, std::size_t numel);

  /// Returns the place where the exchange of step `step` puts acc: [numel], or empty if that step is not named.
  View<float> target(std::uint64_t step);
  /// Collective. Writes the content of target(step); does nothing if the step is not named.
  /// @throws comm::CollectiveError on every rank if some rank cannot write its file (full disk).
  void write(comm::Communicator& communicator, std::uint64_t step);

 private:
  bool is_named(std::uint64_t step) const { return std::ranges::count(steps_, static_cast<std::int64_t>(step)) > 0; }

  std::filesystem::path folder_;
  std::vector<std::int64_t> steps_;
  Buffer<float> accumulated_;
};

/// The counts and bytes of the steps that a check looks at.
struct SeenTraffic {
  double bytes = 0;  ///< payload that a worker sent in a step, mean over workers and steps
  comm::AssumedCounts counts = {};
};

/// Compares the bytes that a run sends with those that its plan assumes. Looks at steps 11 to 20 at the target density,
/// then at the last ten of 40, of 80 and so on: a long run asks the other ranks a few times only. The outcome is the
/// same on every rank, and nothing but log lines depends on it.
class TrafficCheck {
 public:
  static constexpr std::uint64_t kWindow = 10;
  /// Within the stated range bytes may be off by this factor, and outside of it by the other one.
  static constexpr double kInRange = 2, kOutside = 1.25;
  /// A correction is repeated when the bytes have changed by this factor.
  static constexpr double kChange = 2;

  /// @param assumed bytes of a step.
  TrafficCheck(const exchange::ExchangeRules& rules, const ByteRange& assumed) : rules_(&rules), assumed_(assumed) {}

  /// Collective in a few steps. Adds a step at the target density. @param bytes the payload that this rank sent.
  /// Returns the traffic if it is not what was assumed, or was said last.
  std::optional<SeenTraffic> add(comm::Communicator& communicator, const exchange::ExchangeCounts& counts,
                                 double bytes);

  const ByteRange& assumed() const { return assumed_; }

 private:
  bool is_off(double bytes) const;
  comm::AssumedCounts seen_counts(int ranks) const;

  const exchange::ExchangeRules* rules_;
  ByteRange assumed_;
  std::uint64_t steps_ = 0, next_ = 2 * kWindow;
  double bytes_ = 0;               // of this rank in the window, and below of all ranks and buckets
  exchange::ExchangeCounts sums_;  // numel, target, padded and global alone
  double selected_ = 0;
  std::optional<double> told_;
};

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
  /// Returns whether the timeline is written after step `step`: the ranks communicate then, and nothing may be
  /// recorded.
  bool ends_timeline(std::uint64_t step) const { return timeline_ && timeline_->ends_in(step); }
  /// Writes the timeline when its last step, or the run's, is done. @param step the last one; the furthest rank's, if
  /// ranks stop at different ones.
  void end_step(std::uint64_t step, bool is_last_of_run);
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
  bool has_advice() const;
  /// Returns the unit of what is counted by exchanges.
  const char* unit() const { return plan_.steps_per_exchange > 1 ? "exchange" : "step"; }
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
  ByteForecast predicted_;                     // of an exchange at the target density
  std::optional<TrafficCheck> traffic_check_;  // where ranks exchange selections
};

}  // namespace dragonn::trainer

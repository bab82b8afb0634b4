// SPDX-License-Identifier: MIT
/// ProgressReport: a run's progress on the terminal and in the log, from the first step on. Summary: the results of a
/// finished run, written to summary.json, and on one screen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/component_traits.h"
#include "core/timer.h"
#include "trainer/config/config.h"
#include "trainer/metrics/metrics.h"

namespace dragonn::trainer {

/// The seconds of one rank. Without overlap a step consists of computing, selecting and exchanging; with overlap, of
/// computing and of the exposed part of the exchange.
struct StepTimes {
  double computing = 0;   ///< loading, forward, backward and the update
  double selecting = 0;   ///< error feedback, selection or quantization, decoding
  double exchanging = 0;  ///< messages, and the wait for those of slower workers
  double exposed = 0;     ///< with overlap: time that the exchange added to the step
  double hidden = 0;      ///< with overlap: time of the exchange behind computing
  double backward = 0;    ///< the part of computing in backward passes, without the first step, which also sets up
  int steps = 0;
  bool overlapped = false;

  /// Adds the timers of one step.
  void add(const StepTimers& timers, bool overlaps);
  double total() const { return computing + (overlapped ? exposed : selecting + exchanging); }
  /// Returns the share of a step's time that is communication not hidden by computing. With overlap, selecting behind
  /// computing counts, too.
  double exposed_share() const;
};

struct ProgressNumbers {
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  double epoch = 0;
  std::int64_t total_epochs = 0;
  double loss = 0;
  double samples_per_second = 0;
  bool is_time_virtual = false;  ///< whether samples_per_second counts virtual time
  double bytes_per_step = 0;     ///< sent by a worker
  double exposed_share = 0;      ///< share of a step's time that is communication not hidden by computing
  double seconds_left = 0;       ///< wall time
};

/// Returns a line of at most `columns`: the fields that matter least are left out first.
std::string progress_line(const ProgressNumbers& numbers, std::size_t columns);
/// Returns a line with all fields except those that are true for a moment only.
std::string progress_note(const ProgressNumbers& numbers);

/// Reports on rank 0.
class ProgressReport {
 public:
  struct Run {
    std::uint64_t first_step = 0;  ///< steps done before
    std::uint64_t total_steps = 0;
    std::int64_t total_epochs = 0;
    bool is_time_virtual = false;
    bool overlaps = false;          ///< buckets are exchanged beside computing
    bool is_exchange_rare = false;  ///< most steps exchange nothing
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

struct Summary {
  std::optional<EvalRecord> final_eval;
  std::optional<EvalRecord> best_eval;
  std::uint64_t steps = 0;
  std::string ended_by;  ///< "epochs", "max_steps", "patience"
  double seconds_total = 0;
  std::optional<NetworkConfig> network = {};  ///< of a virtual cluster: all times here and in metrics.jsonl are virtual
  double throughput = 0;                      ///< samples per second of training steps, over all ranks
  double utilization = 0;                     ///< Progress::utilization of rank 0
  double bytes_sent_total = 0;                ///< sum over ranks, for the gradient exchange and its headers
  ByteForecast predicted_bytes = {};          ///< of a step at the target density, before the run
  double density_mean = 1;                    ///< mean over steps of selected / n, itself a mean over ranks
  std::size_t tensors_sparse = 0;             ///< tensors sparsified in the last step
  std::size_t tensors_dense = 0;
  int world_size = 1;
  std::string backend;
  std::string device;  ///< "cpu", "cuda"
  std::string parameters_hash;
  std::string config_hash;
  std::optional<LostMass> lost_mass = {};  ///< of an elastic run that has lost members
  std::vector<std::string> warnings;
};

/// Writes the file atomically. @throws SystemError.
void write_summary(const std::filesystem::path& path, const Summary& summary);

/// The data of the report that the summary lacks.
struct RunOutcome {
  std::filesystem::path folder;
  StepTimes times;               ///< rank 0's, for the steps after first_step
  std::uint64_t first_step = 0;  ///< steps done before this process
  double wall_seconds = 0;       ///< wall time of this process, from its first step on
  double dense_bytes = 0;        ///< bytes that a dense ring allreduce would send per worker and step
  bool is_dense = false;         ///< true for the method dense
};

/// Returns the lines of the report, the result first.
std::vector<std::string> final_report(const Summary& summary, const RunOutcome& outcome);

}  // namespace dragonn::trainer

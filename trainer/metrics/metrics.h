// SPDX-License-Identifier: MIT
/// Metrics: the numbers of one step and of one evaluation, reduced over ranks, as lines of metrics.jsonl.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/clock.h"
#include "core/timer.h"
#include "exchange/gradient_exchange.h"
#include "trainer/metrics/event_file.h"
#include "trainer/metrics/quality.h"

namespace dragonn::trainer {

/// The residuals that the lost members of an elastic run took along: sums over their last known residuals.
struct LostMass {
  std::uint64_t members = 0;
  std::uint64_t unknown = 0;  ///< members of which the coordinator had not heard a residual
  double sum = 0;
  double l1 = 0;
  double restored_sum = 0;  ///< the part that others have taken over from copies
};

/// The distance of a rank's parameters from the common ones, over the parameters that were exchanged.
struct ParameterDrift {
  double squares = 0;     ///< sum of the squares of the differences
  double parameters = 0;  ///< number; 0: every rank has the common ones

  ParameterDrift& operator+=(const ParameterDrift& other) {
    squares += other.squares;
    parameters += other.parameters;
    return *this;
  }
};

/// One rank's view of one step.
struct StepSample {
  double loss_sum = 0;           ///< over the samples of the step
  std::uint64_t count = 0;       ///< samples
  comm::PhaseTraffic traffic{};  ///< by phase, since the model was updated before
  double residual_norm = 0;      ///< NaN if nothing stays behind
  comm::ListCounts lists = {};   ///< entries and bytes of the lists in its messages
  ParameterDrift drift = {};     ///< of an exchange of changed parameters
  StepTimers timers;
};

/// Returns the seconds in which a rank loads, computes gradients and updates parameters.
double computing_seconds(const StepTimers& timers);

struct MeanMax {
  double mean = 0;
  double max = 0;
};

/// The traffic of all ranks in a step. Messages are counted by senders.
struct TrafficRecord {
  MeanMax bytes_sent, bytes_received, messages;
};

/// The origin of a run's times: the wall clock, or the clocks of a virtual cluster.
enum class TimeKind { kWall, kVirtual };

/// A step over all ranks. Numbers that a method does not have are negative or NaN.
struct StepRecord {
  std::uint64_t step = 0;  ///< counts from 1: steps done
  double epoch = 0;        ///< epochs done, with a fraction
  double loss = 0;         ///< mean over the global batch
  double learning_rate = 0;
  double density_target = 1;
  exchange::ExchangeCounts counts = {};
  double residual_norm = 0;      ///< mean over ranks of the Euclidean norm; NaN if dense
  double drift = 0;              ///< root of the mean square over ranks and parameters (ParameterDrift); NaN without
  double utilization = 0;        ///< Progress::utilization
  double bits_per_entry = 0;     ///< of the lists in messages, mean over all entries; NaN without lists
  TrafficRecord exchanged = {};  ///< payload and headers of the gradient exchange
  std::array<TrafficRecord, comm::kPhaseNames.size()> by_phase = {};
  double bytes_sent_total = 0;       ///< mean over ranks, since the run began
  double bytes_per_step = 0;         ///< those by the steps since then, with and without an exchange
  std::vector<double> seconds = {};  ///< by verb, max over ranks
  Moment time = {};                  ///< since the run began
};

struct EvalRecord {
  std::uint64_t step = 0;
  double epoch = 0;
  std::string split = "test";
  double loss = 0;
  std::vector<Quality> qualities = {};  ///< "accuracy" and the like; the first one decides which evaluation is best
  Moment time = {};                     ///< since the run began
};

/// Returns whether an evaluation is better than another on the same data. Any number is better than none (NaN).
bool is_better(const EvalRecord& a, const EvalRecord& b);

/// Returns the traffic of the gradient exchange: its payload and headers.
comm::Traffic exchange_traffic(const comm::PhaseTraffic& traffic);

/// Collective. Fills in the fields of `record` that are reduced over ranks.
void reduce_step(comm::Communicator& communicator, const StepSample& mine, StepRecord& record);

/// Appends lines to metrics.jsonl, and their numbers to an event file if there is one; one writer per run, on rank 0.
/// Every line is flushed.
class MetricsWriter {
 public:
  /// Keeps the existing lines of steps up to `last_step` (a resumed run continues after them) and drops later ones.
  /// @param times of the lines to come: with kVirtual each has the time on an ideal network, too.
  /// @param events receives the numbers of the lines, too; may be null.
  MetricsWriter(const std::filesystem::path& path, std::uint64_t last_step, TimeKind times,
                std::unique_ptr<EventFile> events = nullptr);

  /// Writes a line. @throws SystemError (append_flushed).
  void write(const StepRecord& record);
  void write(const EvalRecord& record);
  /// Writes the steps that each rank made in the round that ends after a step.
  void write_round(std::uint64_t step, std::span<const std::uint64_t> inner_steps);
  /// Writes a histogram of the residuals' magnitudes to the event file; does nothing without one, or without residuals.
  void write_residual(std::uint64_t step, const MagnitudeCounts& magnitudes);

 private:
  std::filesystem::path path_;
  TimeKind times_;
  std::ofstream file_;
  std::unique_ptr<EventFile> events_;
};

}  // namespace dragonn::trainer

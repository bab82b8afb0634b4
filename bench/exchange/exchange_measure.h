// SPDX-License-Identifier: MIT
/// An exchange as dragonn-bench measures it: its gradients, its files, and what is recorded of each step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/sparse/sparse_collective.h"
#include "core/timer.h"
#include "exchange/gradient_exchange.h"
#include "trainer/metrics/metrics.h"

namespace dragonn::bench {

/// The properties that make gradients look like those of training: workers share a component, which is drawn anew every
/// step, and layers differ in scale. Magnitudes have a heavier tail than normal ones (sums of two Laplace draws).
struct WorkerGradientRules {
  std::uint64_t seed = 1;
  double correlation = 0.5;  ///< of an element between two workers, in [0, 1]
};

class WorkerGradient {
 public:
  WorkerGradient(const WorkerGradientRules& rules, std::size_t numel, int rank);

  /// Overwrites `gradient`, [numel]; it is the same for the same seed, step and rank. Draws from a table, each piece
  /// from a place of its own: one pass over memory.
  void draw(std::uint64_t step, std::span<float> gradient) const;

 private:
  float scale_of(std::size_t piece) const;

  WorkerGradientRules rules_;
  std::size_t numel_;
  std::size_t piece_;  // elements that lie together in the table
  std::uint64_t rank_;
};

/// The files of an exchange. All arrays are float32 of one dimension and of one length.
struct ExchangeFiles {
  std::string input;  ///< each rank's accumulated gradient: a path with "{rank}" in it; empty: none
  std::string dump;   ///< folder of the outcome, made if needed; empty: none
};

/// Returns the path of one rank. @throws ConfigError if `pattern` does not hold "{rank}".
std::filesystem::path input_path(const std::string& pattern, int rank);
/// Returns the length of the array, from the file of rank 0. @throws as read_input.
std::size_t input_numel(const std::string& pattern);
/// Collective. Returns this rank's array. @throws CollectiveError on all ranks if a file is missing, is no array of
/// `numel` float32 in one dimension, or holds NaN or infinity.
std::vector<float> read_input(comm::Communicator& communicator, const std::string& pattern, std::size_t numel);

/// The arrays of one rank after an exchange.
struct ExchangeDump {
  std::span<const float> accumulated;  ///< acc that went in
  const comm::SparseReduction& reduction;
  View<const float> residual;  ///< after settle; empty: nothing stays behind
};
/// Collective. Writes acc_{rank}.npy and residual_{rank}.npy of every rank, and sum.npy, the exchanged sum over ranks.
/// @throws CollectiveError on all ranks if a file cannot be written.
void write_dump(comm::Communicator& communicator, const std::string& folder, const ExchangeDump& dump);

/// A quantity of one exchange on one rank. kSeconds is the collective, decoding included; kSecondsTotal is compensate
/// to settle. Bytes and messages are payload; counts and flags are headers. kFirstVerb and those after it are seconds
/// by StepPart.
enum class Quantity : std::size_t {
  kSeconds,
  kSecondsTotal,
  kBytesSent,
  kBytesReceived,
  kMessagesSent,
  kMessagesReceived,
  kHeaderBytesSent,
  kHeaderMessagesSent,
  kSelected,  ///< entries that the rank selected
  kGlobal,    ///< entries of the sum
  kFirstVerb
};
inline constexpr std::size_t kQuantities = static_cast<std::size_t>(Quantity::kFirstVerb) + kStepPartNames.size();

/// The quantities of one step, over the ranks.
struct ExchangeRecord {
  std::uint64_t step = 0;
  std::array<trainer::MeanMax, kQuantities> values{};

  trainer::MeanMax& operator[](Quantity quantity) { return values[static_cast<std::size_t>(quantity)]; }
  const trainer::MeanMax& operator[](Quantity quantity) const { return values[static_cast<std::size_t>(quantity)]; }
};

/// The quantities of one rank.
class RankValues {
 public:
  double& operator[](Quantity quantity) { return values[static_cast<std::size_t>(quantity)]; }
  std::array<double, kQuantities> values{};
};

/// Measures the steps of one rank.
class StepMeter {
 public:
  explicit StepMeter(comm::Communicator& communicator) : communicator_(communicator) {}

  /// Collective. Starts the measurement on all ranks at the same time; on a virtual cluster exactly so.
  void start();
  /// Sets kSecondsTotal, bytes and messages.
  void stop(RankValues& values) const;
  /// Collective. Returns the record of a step from each rank's values.
  ExchangeRecord record(std::uint64_t step, const RankValues& mine) const;

 private:
  comm::Communicator& communicator_;
  comm::TrafficCounters before_;
  double start_ = 0;
};

/// The exchange to be measured, and how often.
struct ExchangeCase {
  exchange::ExchangeRules rules;  ///< the gradient is one bucket
  std::string collective;         ///< its name, also where the rules exchange dense
  std::size_t numel = 0;
  double density = 1;
  WorkerGradientRules gradients = {};
  std::size_t warm_up = 0;  ///< steps before the first that is measured
  std::size_t steps = 1;
  bool aligned = true;  ///< all ranks begin the collective at the same time; else it waits for slower ranks' selections
  ExchangeFiles files = {};
  /// Draws selections as lists: there are no gradients, and nothing is decoded (comm/sparse/sized_lists.h).
  bool payload_only = false;

  /// Returns the collective, also of a dense exchange.
  const Component& component() const { return rules.buckets.compress ? rules.collective : rules.dense; }
  /// Returns the traits of the selections.
  SelectionTraits traits() const;
  /// Predicts an exchange by the collective's formulas. NaN if there are none: MPI's own allreduce.
  comm::Prediction predict(const std::string& backend, int ranks, const ExchangeRecord& record) const;
  /// Returns the number of steps from one that computes the collective's threshold to the next; 1 if all steps are
  /// alike.
  std::size_t period() const;
  bool computes_threshold(std::uint64_t step) const { return period() > 1 && step % period() == 0; }
};

/// Collective. Runs the case and returns the measured steps, on every rank. All ranks begin a step at the same time.
/// @param on_step is called after every step, on the rank's thread and outside of measured time; may be empty.
/// @throws CollectiveError, the same on all ranks, for input that differs in length or holds NaN or infinity, and if
/// the gradient exchange throws it.
std::vector<ExchangeRecord> measure_exchange(comm::Communicator& communicator, const ExchangeCase& exchange_case,
                                             const std::function<void()>& on_step = {});

}  // namespace dragonn::bench

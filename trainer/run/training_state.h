// SPDX-License-Identifier: MIT
/// TrainingState: what a rank keeps from one group of workers to the next.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exchange/resize.h"
#include "kernels/devices.h"
#include "layers/network.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "trainer/config/config.h"
#include "trainer/metrics/metrics.h"
#include "trainer/run/checkpoint.h"
#include "trainer/run/commits.h"
#include "trainer/run/residual_copies.h"
#include "trainer/run/run_position.h"

namespace dragonn::trainer {

class StateListener;  // trainer/run/state_listener.h
struct LoggedUpdate;  // trainer/update/logged_update.h

/// The names of fields of archives.
inline constexpr const char* kParameters = "parameters";  ///< the parameters that all ranks share, [arena]
inline constexpr const char* kOptimizer = "optimizer/";   ///< begins the optimizer's
inline constexpr const char* kScheme = "update/";         ///< begins the update scheme's

/// The run's progress besides its parameters; saved in checkpoints.
struct Progress {
  std::uint64_t step = 0;     ///< optimizer steps done
  std::uint64_t samples = 0;  ///< that these took, over all workers
  Moment time = {};           ///< this rank's clock since the run began
  double step_seconds = 0;    ///< the part of `time` in training steps
  double busy_seconds = 0;    ///< the part of `step_seconds` in which this rank computed gradients and updates
  double density_sum = 0;     ///< sum of the steps' local densities
  double bytes_sent = 0;      ///< sum over ranks, for the exchange and its headers
  std::optional<EvalRecord> last;
  std::optional<EvalRecord> best;  ///< the earliest of equal ones (is_better)
  std::uint64_t evaluations_since_best = 0;
  bool dense_is_faster = false;  ///< one of the warnings says so: once per run is enough
  std::vector<std::string> warnings;
  LostMass lost;

  /// Returns the share of the time in training steps that this rank computed; above 1 by rounding at most.
  double utilization() const { return step_seconds > 0 ? busy_seconds / step_seconds : 0.0; }
  /// Returns the rate of training steps, over all ranks.
  double samples_per_second() const { return step_seconds > 0 ? static_cast<double>(samples) / step_seconds : 0.0; }
};

/// Network, optimizer, schedule and place of a run. Every rank builds it alike. Nothing here communicates: a generation
/// (trainer/run/generation.h) trains it.
struct TrainingState {
  /// @param run outlives the state.  @param untrained has no memory yet.
  TrainingState(const RunSpec& run, layers::Network untrained);

  /// Sets the lengths of epochs and of the run for a group whose workers together take so many samples per step.
  void lay_out(std::uint64_t samples_per_step, std::uint64_t steps_per_epoch);

  /// Saves what all ranks share, in two parts: the values, which are the model's parameters and the optimizer, unless
  /// every rank has its own; and the rest, with the mean of the ranks' statistics.
  void save_values(Archive& model, std::span<const float> model_parameters);
  void save_rest(Archive& model, std::span<const float> mean_statistics);
  /// Returns the arrays that save_values() saves of this state's own parameters, where they lie.
  std::vector<optim::StateArray> values();
  /// Saves what this rank alone has.
  void save_rank(Archive& rank);
  /// Returns whether all ranks share the optimizer.
  bool shares_optimizer() const;
  /// Takes what all ranks share from a group of any size, for one of `workers` that lay_out() has seen. Where the sizes
  /// differ, statistics start from their mean. Returns the place in the data at which that group stopped.
  /// @throws ConfigError for another model's state; DataError.
  DataPosition reshard_from(StateSource& source, int workers, const RunPosition::ContinueEpoch& continue_epoch);
  /// Takes what a rank alone had, after reshard_from(). load_rank() is for the same rank of a group of the same size;
  /// if steps take as many samples as before, it goes on from its own step, which may be another one than rank 0's, in
  /// another epoch. add_rank() is for each of the ranks that ranks_to_take() names. Otherwise all ranks go on from
  /// rank 0's step. @param stopped rank 0's place in the data.
  void load_rank(const Archive& rank, const DataPosition& stopped, const RunPosition::ContinueEpoch& continue_epoch);
  /// Returns the statistics of the network that save_rank() has saved.
  static std::vector<float> statistics_of(const Archive& rank);
  /// Takes the optimizer that all ranks share or, if every rank has its own (UpdateSchemeEntry::steps_locally), that of
  /// the rank. A run that has just begun to step locally goes on with the shared one. @throws ConfigError for the way
  /// back.
  void load_optimizer(const Archive& model, const Archive& rank);
  void add_rank(const Archive& rank, const exchange::ReshardedParts& what);

  /// Tells the listener what the parameters that all ranks share have just changed by.
  void tell_update(const LoggedUpdate& update);

  /// Notes an evaluation, the same on all ranks.
  void observe(const EvalRecord& record);

  /// Returns whether what waits for an update of the model, every so many steps or epochs, is due now.
  bool is_due(std::int64_t every) const {
    const auto steps = static_cast<std::uint64_t>(every);
    return every > 0 && progress.step / steps > synchronized_step / steps;
  }
  bool epoch_is_due(std::int64_t every) const {
    return every > 0 && position.ends_epochs(synchronized_step, progress.step, static_cast<std::uint64_t>(every));
  }
  /// Returns whether what does not wait is due after a step.
  bool ends_steps(std::int64_t every, std::uint64_t step) const {
    return every > 0 && step % static_cast<std::uint64_t>(every) == 0;
  }
  bool ends_epochs(std::int64_t every, std::uint64_t step) const {
    return every > 0 && position.ends_epochs(step - 1, step, static_cast<std::uint64_t>(every));
  }
  /// Returns whether so many evaluations have not improved on the best one that the run ends (train.patience).
  bool is_out_of_patience() const;
  /// Returns the reason of the end: "epochs", "max_steps" or "patience".
  const char* ended_by() const;
  /// Returns the learning rate of a step, from 0.
  double learning_rate(std::uint64_t step) const { return schedule->learning_rate(position.scheduled(step)); }
  /// Returns the share of the base rate that the decay has left at a step.
  double rate_share(std::uint64_t step) const { return schedule->decay(position.scheduled(step)); }
  double epochs_done() const { return position.epochs_done(progress.step); }
  Device device() const { return network.arena().values().device(); }
  std::span<const float> parameters() { return mirror.of(network.arena().values()); }

  const RunSpec& config;
  layers::Network network;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Schedule> schedule;
  RunPosition position{1, 1};
  std::uint64_t scheduled_steps = 0;  ///< steps of all epochs, as the position schedules them
  std::uint64_t total_steps = 0;      ///< updates of the whole run
  std::size_t batch_size = 0;         ///< of each worker of the present group
  kernels::HostMirror<float> mirror;  ///< of the parameters, for hashes and checkpoints
  Progress progress;
  Commits commits;
  StateListener* listener = nullptr;     ///< null: none
  std::optional<ResidualCopies> copies;  ///< of an elastic run with comm.residual_copies
  std::uint64_t furthest_step = 0;       ///< of any rank, when the present group began
  std::uint64_t synchronized_step = 0;   ///< the last step before the present one that updated the model

 private:
  void set_length();
};

/// Returns "changed since the checkpoint: ..." about a saved run's config; empty if no change affects a number.
std::string changes_since(const Archive& model, const Config& config);

/// Fills a network, made by `config`, with the parameters and the averaged statistics of a checkpoint folder, of any
/// world size. Returns the steps after which it was saved.
/// @throws ConfigError, DataError (see CheckpointStore::read_model); ConfigError for another model's.
std::uint64_t load_model(const std::filesystem::path& checkpoint, const Config& config, layers::Network& network);

}  // namespace dragonn::trainer

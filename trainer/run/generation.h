// SPDX-License-Identifier: MIT
/// Generation: what depends on one group of workers; another group of the same run has another one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "data/loader.h"
#include "exchange/gradient_exchange.h"
#include "trainer/cost_model/tensor_selection.h"
#include "trainer/metrics/metrics.h"
#include "trainer/run/overlapped_backward.h"
#include "trainer/run/plan.h"
#include "trainer/run/run.h"
#include "trainer/run/training_state.h"
#include "trainer/update/update_scheme.h"

namespace dragonn::trainer {

/// Returns how a config deals out its data to a rank of a group.
data::BatchRules batch_rules(const Config& config, int rank, int world);

/// Returns how many steps a group makes in an epoch. O(samples).
std::uint64_t steps_per_epoch(const Config& config, const data::Dataset& train, int world);

/// The group's communicator, and what of a rank's training is of no use without it: loaders, exchange, update scheme,
/// computing thread, timers. It trains a state that outlives it. A run goes on with another group like this: save() on
/// all ranks, the end of this object and of its communicator, a new one on the new communicator, reshard_from().
struct Generation {
  /// Lays out the state for the group. The job, the state and the communicator outlive this object.
  /// @throws ConfigError, on every rank that can see the reason.
  Generation(const Job& job, const RunPlan& plan, TrainingState& trained, comm::Communicator& group);

  /// Local. Takes over what a group of any size left. With as many workers as this one has, training goes on as if it
  /// had not stopped. With another number the samples, the residuals and the state of the methods are shared out anew,
  /// by the rules of docs/design.md. Returns the place in the data at which that group stopped.
  DataPosition reshard_from(StateSource& source);
  /// Local. Saves the state of this rank, and on rank 0 the model's. @param mean_statistics over all ranks.
  void save(Archive* model, Archive& rank, std::span<const float> mean_statistics);
  /// Local. Saves the model's state alone, also after a step that has failed: only a commit changes it.
  void save_model(Archive& model, std::span<const float> mean_statistics);
  /// Local. Does the same without the values that the training state has (TrainingState::save_values).
  void save_model_rest(Archive& model, std::span<const float> mean_statistics);
  /// Returns whether the training state has those, as the next group goes on from them.
  bool leaves_values() const { return scheme->model_parameters().empty() && state.shares_optimizer(); }

  /// Returns whether a field of a rank's archive holds what it has not sent, so that no other rank goes on with it.
  bool stays_with_rank(const std::string& field) const;

  /// Computes this rank's gradient of the next batch. With overlap the last micro-batch's backward is only started, for
  /// an exchange whose gate is `overlapped`: finish_gradient() waits for its end, with and without an exchange.
  void compute_gradient() { compute_gradient(state.progress.step, sample); }
  /// Does the same for a step that may be ahead of the run, as the batch always is, in any thread.
  /// @param of_step receives loss, count and times.
  void compute_gradient(std::uint64_t step, StepSample& of_step);
  void finish_gradient() {
    if (overlapped) overlapped->finish(sample.timers);
  }
  /// The sum over micro-batches.
  View<const float> gradient() const;
  /// The parameters that all ranks share, on the host, valid until the next call: they are compared and saved.
  std::span<const float> model_parameters();

  /// The input of a choice of tensors, or of an advice.
  SelectionQuestion selection_question() const;
  /// Returns whether the run ends before its counts have settled.
  bool ends_unsettled() const;

  bool is_virtual() const { return communicator.clock().is_virtual(); }
  /// Returns the time on this rank since the run began.
  Moment elapsed() const;
  /// Collective. Returns the time since the run began: rank 0's wall time, or the virtual time of the rank that is
  /// farthest.
  Moment run_time() const;
  /// Collective. Returns the run's bytes.
  double bytes_sent_by_all() const;

 private:
  /// Runs backward; `ready` may be empty.
  void backward(const layers::GradientReady& ready);
  /// Returns the clock of the calling thread: the worker's or the computing one.
  Clock& clock_here();
  /// Returns the described seconds of a share of a step's computing; 0 if it is not described (network.step_ms).
  double described_seconds(double share) const;
  /// Makes the run's time continue from `time`.
  void begin_clock_at(Moment time);

  Buffer<float> accumulated_;  // sum over micro-batches; empty without gradient accumulation
  Moment clock_offset_;        // from the group's clock to the run's
  // By parameter: the share of backward behind which its gradient is final. Empty without network.step_ms.
  std::vector<double> done_when_final_;

 public:
  const RunSpec& config;
  const std::uint64_t steps_per_exchange;  ///< of the update scheme, of each bucket (UpdateTraits)
  TrainingState& state;
  comm::Communicator& communicator;
  data::Loader loader;
  data::EvaluationLoader test;
  std::unique_ptr<exchange::GradientExchange> gradient_exchange;
  std::unique_ptr<UpdateScheme> scheme;
  std::optional<TensorSelection> selection;        ///< where the run wants costs
  StepSample sample;                               ///< of the current step
  std::unique_ptr<ComputeThread> compute_thread;   ///< null without overlap of backward or of inner steps
  std::unique_ptr<OverlappedBackward> overlapped;  // last: its pass uses the members above
};

}  // namespace dragonn::trainer

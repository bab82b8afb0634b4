// SPDX-License-Identifier: MIT
/// Training: one rank's training with one group of workers, from the first step to the last.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/run/checkpoint.h"
#include "trainer/run/generation.h"
#include "trainer/run/left_state.h"
#include "trainer/run/membership_record.h"
#include "trainer/run/plan.h"
#include "trainer/run/run.h"
#include "trainer/run/run_recorder.h"
#include "trainer/run/stop_agreement.h"

namespace dragonn::trainer {

/// The loop of steps, evaluations and checkpoints. All methods are collective unless said otherwise.
class Training {
 public:
  /// All arguments outlive this object. @throws ConfigError, on every rank that can see the reason.
  Training(const Job& job, const RunPlan& plan, TrainingState& state, comm::Communicator& communicator);

  /// Local, on rank 0. Checks and reads what a fresh run needs, before anything is written: the given profile and
  /// train.init_from. @throws ConfigError, DataError (see given_profile, import_weights).
  void prepare_fresh();
  /// Gives the parameters and running moments of rank 0 to all ranks, if the run has train.init_from.
  void share_initial_weights();
  /// Local. Takes over what a group of any size left (Generation::reshard_from): the first part of resume() and
  /// go_on(), for a rank that would wait for others in front of them.
  void take_over(StateSource& source);
  /// Collective. Goes on where a group of any size stopped; the log says how.
  void resume(StateSource& source);
  /// Goes on where the group before stopped, with what this rank had, or with a copy of what another one had. What that
  /// group had begun is done anew.
  void go_on(LeftState& left);
  /// Adds the residuals of members that are lost to those of the ranks that have copies. @param generation gets the
  /// sums.
  void restore_lost(MembershipRecord& generation);
  /// Local. Counts what they took along, when the generation has begun.
  void count_lost();
  /// Local. Returns the state of this rank after its last commit, when its group is over.
  std::unique_ptr<LeftState> leave();
  /// Saves what a run needs to go on, and returns kExitRequeue.
  int stop(const char* reason);
  /// Trains to the end, or until a stop signal reaches some rank. Called once, after any resume. Returns the program's
  /// exit code: 0, or kExitRequeue when it stopped early with a checkpoint.
  int train();
  /// Decides which tensors are sparsified if the run asks for it, unless a checkpoint holds the decision; logs the
  /// advice and writes the decision into the run folder. Called once before train(), after any resume.
  void choose_tensors();

  Generation& generation() { return generation_; }

 private:
  /// Returns none if the run stops before the step.
  std::optional<StepOutcome> run_step();
  /// Finds out from which steps the ranks go on, which differ if they stopped within a round.
  void begin_rounds();
  /// Makes the loader go on at the present step.
  void seek_data();
  /// Local. Returns whether the ranks communicate in this step, or directly after it.
  bool is_meeting(std::uint64_t step) const;
  /// Asks the other ranks, where it is a meeting, whether the step may begin.
  bool may_begin(std::uint64_t step);
  /// Does what is due after a step. Returns the exit code if the run stops there.
  std::optional<int> end_step(bool stops);
  /// Local. Begins a step in which the ranks meet: an elastic run keeps what the step changes before it is committed.
  void begin_meeting();
  /// Takes copies of the ranks' residuals where they are due.
  void copy_residuals();
  /// Collective. Agrees, in an elastic run, that the work since the last step counts.
  void commit();
  void evaluate_now();
  void save_checkpoint();
  bool saves_after(std::uint64_t step) const;
  /// Returns whether checkpoints that are due between two exchanges come at the next one: where ranks leave out steps,
  /// and in an elastic run, so that a place tells which steps a group has made.
  bool saves_at_exchanges() const { return update_.skips_steps || state_.commits.is_elastic(); }
  /// Returns the samples of all ranks in the last step. At the end of a round with steps left out it makes up for the
  /// steps before, which were counted as if all ranks had made them.
  std::uint64_t samples_of(const StepOutcome& outcome) const;
  /// Returns the steps behind the next one that may be computed with it (StepValues::free_steps).
  std::uint64_t free_steps() const;
  /// Reports how a run goes on with another number of workers.
  void tell_resize(const DataPosition& stopped, int workers);
  int stop_on_signal();
  void finish();

  const RunSpec& config_;
  const RunFolder& folder_;
  TrainingState& state_;
  comm::Communicator& communicator_;
  Generation generation_;
  RunRecorder recorder_;
  CheckpointStore checkpoints_;
  StopAgreement stop_agreement_;          // of ranks that do not communicate in every step
  const UpdateTraits update_;             // of the scheme
  std::optional<DataPosition> stopped_;   // the place in the data that was taken over
  bool goes_on_ = false;                  // from a checkpoint of this run, with the settings that it had
  bool has_exchanged_ = false;            // since the model's last update
  bool follows_ = false;                  // another group of this process
  std::vector<int> members_;              // of an elastic run's generation, by rank
  LostMass lost_;                         // with the members that this generation has no more
  std::unique_ptr<Archive> before_step_;  // of an elastic run: this rank's state before the step that is not committed
};

}  // namespace dragonn::trainer

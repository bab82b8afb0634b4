// SPDX-License-Identifier: MIT
/// Run: from a request on the command line to a finished run folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "comm/local/local.h"
#include "core/file.h"
#include "data/dataset.h"
#include "layers/network.h"
#include "trainer/config/config.h"
#include "trainer/run/byte_budget.h"
#include "trainer/run/commits.h"
#include "trainer/run/device_choice.h"
#include "trainer/run/membership_record.h"
#include "trainer/run/plan.h"
#include "trainer/run/training_state.h"

namespace dragonn::trainer {

/// The paths of a run's files.
struct RunFolder {
  std::filesystem::path path;
  std::filesystem::path config() const { return path / "config.toml"; }
  std::filesystem::path metrics() const { return path / "metrics.jsonl"; }
  std::filesystem::path summary() const { return path / "summary.json"; }
  std::filesystem::path log() const { return path / "log.txt"; }
  std::filesystem::path profile() const { return path / "profile.json"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path membership() const { return path / "membership.jsonl"; }
  std::filesystem::path trace() const { return path / "trace.json"; }
  std::filesystem::path gradients() const { return path / "gradients"; }
};

/// Returns the run folder that a path names, directly or by a checkpoint in it; empty if none.
std::filesystem::path run_of(const std::filesystem::path& named);
/// Returns the config of that run. @throws ConfigError if there is none.
std::filesystem::path config_of_run(const std::filesystem::path& named);

/// The data that all ranks of a run have before they are connected.
struct Job {
  RunSpec config;
  data::DatasetSplits data;
  RunFolder folder;
  std::string resume;  ///< "", "auto", a checkpoint folder or a run folder
};

/// Returns the options of the local backend: a virtual cluster if [network] models one.
/// @throws ConfigError if the workers' compute time is to be measured and uses several threads, which a worker's clock
/// does not see.
comm::LocalOptions local_options(const Config& config, int workers);

class Training;       // trainer/run/training.h
class LeftState;      // likewise
class StateDonor;     // trainer/run/state_donor.h
class StateListener;  // trainer/run/state_listener.h
class StateTaker;     // trainer/run/state_taker.h

/// One rank of a run: it trains with one group of workers or, in an elastic run, with several that follow one another.
class RankRun {
 public:
  /// @param job outlives this.  @param commits of an elastic run, or of the replay of one.
  explicit RankRun(const Job& job, const Commits& commits = {});
  ~RankRun();
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  /// Collective. Trains with a group and returns the exit code (Training::train). The first group begins the run: its
  /// rank 0 prepares the run folder, where the files of an earlier run that is not resumed are moved to earlier-N,
  /// never overwritten. Another one goes on from what its ranks have left; those that join get the state of others.
  /// @param generation of an elastic run; rank 0 writes it to membership.jsonl.
  /// @throws comm::CollectiveError, CommError: what this rank has committed is kept for the next group.
  int train(comm::Communicator& communicator, MembershipRecord* generation = nullptr);

  /// Returns the number of agreements that this rank has committed or, before it has, the place where it is to begin.
  std::uint64_t place() const { return state_ ? state_->commits.place() : commits_.place(); }
  /// Says at which place the next generation begins: a rank that has not begun joins the run there.
  void begin_at(std::uint64_t place);
  /// Returns what this rank has left when its last group was over; null if none was.
  LeftState* left() { return left_.get(); }
  /// Gives a rank that has not begun a copy of another one's state, which it completes when it begins.
  void set_copy(std::unique_ptr<LeftState> copy);
  /// Says who listens to this rank's state. @param listener outlives this.
  void set_listener(StateListener& listener);
  /// An elastic run: this member gives the state to those that join. @param donor outlives this.
  void set_donor(StateDonor& donor);
  /// The same, of a process that joins: it gets the state from `member`'s stream `run` until it begins.
  void fetch(comm::Member& member, std::uint64_t run);
  void leave_at(const Commits::End& end);

 private:
  void begin(comm::Communicator& communicator, const DeviceChoice& choice, MembershipRecord* generation);
  void go_on(comm::Communicator& communicator, const DeviceChoice& choice, MembershipRecord& generation);
  void make_state(layers::Network network);
  /// Local. Gives this generation the density that spends the config's budget of bytes, if it has one, on these nodes.
  std::optional<ByteBudget> spend_budget(const layers::Network& network, const comm::Nodes& nodes);
  /// Collective. Ends the streams of state that have come to the end: their takers are members.
  void end_streams(comm::Communicator& communicator, const MembershipRecord& generation);
  /// Collective. Gives ranks that join what they lack of the state.
  void take_state(comm::Communicator& communicator, MembershipRecord& generation);
  /// Collective. Compares the replicas, writes the generation, and agrees that it has begun.
  void begin_generation(comm::Communicator& communicator, MembershipRecord& generation);

  /// Gives this generation its batches (train.global_batch).
  void share_out_batch(const MembershipRecord* generation);

  const Job& job_;
  Job job_here_;  // of the present generation
  Commits commits_;
  RunPlan plan_;
  FolderLock lock_;
  std::optional<TrainingState> state_;
  std::unique_ptr<Training> training_;
  std::unique_ptr<LeftState> left_;
  StateListener* listener_ = nullptr;
  StateDonor* donor_ = nullptr;
  std::unique_ptr<StateTaker> taker_;  // behind the state that it uses
  bool has_begun_ = false;
};

/// Collective. Trains with one group (RankRun::train).
int run_training(const Job& job, comm::Communicator& communicator);

/// Collective. Evaluates a checkpoint on the test split; rank 0 prints one JSON object.
void run_evaluation(const Job& job, const std::filesystem::path& checkpoint, comm::Communicator& communicator);

/// Local. Makes the network of a run on the CPU, and gives it the weights of a checkpoint, or of the newest one of a
/// run folder. @param option that names the folder, for errors.  @param step receives the number of training steps.
/// @throws ConfigError, DataError, SystemError.
layers::Network load_network(const RunSpec& config, const char* option, const std::filesystem::path& checkpoint,
                             std::uint64_t& step);

/// Local. Writes the weights of a checkpoint, or of the newest one of a run folder, to a safetensors file.
/// @throws ConfigError, DataError, SystemError.
void run_export(const RunSpec& config, const std::filesystem::path& checkpoint, const std::filesystem::path& file);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Worker: one rank's training, from the first step to the last.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "compress/density_schedule.h"
#include "data/loader.h"
#include "exchange/exchange_plan.h"
#include "exchange/gradient_exchange.h"
#include "exchange/step_agreement.h"
#include "kernels/devices.h"
#include "layers/network.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "trainer/checkpoint.h"
#include "trainer/config/config.h"
#include "trainer/cost_model/tensor_selection.h"
#include "trainer/evaluation.h"
#include "trainer/exchange/gradient_dump.h"
#include "trainer/exchange/overlapped_backward.h"
#include "trainer/metrics/metrics.h"
#include "trainer/metrics/progress_report.h"
#include "trainer/metrics/step_timeline.h"
#include "trainer/metrics/summary.h"
#include "trainer/plan.h"
#include "trainer/run_position.h"
#include "trainer/traffic_check.h"

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
  std::filesystem::path trace() const { return path / "trace.json"; }
  std::filesystem::path gradients() const { return path / "gradients"; }
  /// Returns the files for TensorBoard that are there.
  std::vector<std::filesystem::path> events() const { return event_files(path); }
};

/// The data that all ranks of a run have before they are connected.
struct Job {
  RunSpec config;
  data::DatasetSplits data;
  RunFolder folder;
  std::string resume;  ///< "", "auto", a checkpoint folder or a run folder
};

/// The run's progress besides its parameters; saved in checkpoints.
struct Progress {
  std::uint64_t step = 0;     ///< optimizer steps done
  std::uint64_t samples = 0;  ///< that these took, over all workers
  Moment time = {};           ///< this rank's clock since the run began
  double step_seconds = 0;    ///< the part of `time` in training steps
  double density_sum = 0;     ///< sum of the steps' local densities
  double bytes_sent = 0;      ///< sum over ranks, for the exchange and its headers
  std::optional<EvalRecord> last;
  std::optional<EvalRecord> best;  ///< the earliest of equal ones (is_better)
  std::uint64_t evaluations_since_best = 0;
  bool dense_is_faster = false;  ///< one of the warnings says so: once per run is enough
  std::vector<std::string> warnings;
};

/// The training state of one rank, built alike on every rank. All methods are collective unless said otherwise.
class Worker {
 public:
  /// Builds the state. The job and the plan must outlive it. @param network made for `device`, and without memory.
  /// @throws ConfigError, on every rank that can see the reason.
  Worker(const Job& job, const RunPlan& plan, layers::Network network, comm::Communicator& communicator,
         Device device = {});

  /// Local. Checks, before anything is written, that the given profile has what choose_tensors() needs. @throws
  /// ConfigError, DataError (see given_profile).
  void check_profile() const;
  /// Decides which tensors are sparsified if the run asks for it, unless a checkpoint holds the decision; logs the
  /// table and writes it into the run folder. Called once before train(), after any resume.
  void choose_tensors();
  /// Local, on rank 0. Reads train.init_from, if the run has one. @throws ConfigError, DataError (see import_weights).
  void read_initial_weights();
  /// Gives the parameters and running moments of rank 0 to all ranks, if the run has train.init_from.
  void share_initial_weights();
  /// Restores a checkpoint folder of any number of workers. With as many as this run has the run goes on as if it had
  /// not stopped. With another number the samples, the residuals and the state of the methods are shared out anew, by
  /// the rules of docs/design.md, and the log says how.
  void resume(const std::filesystem::path& checkpoint);
  /// Trains to the end, or until a stop signal reaches some rank. Returns the program's exit code: 0, or kExitRequeue
  /// when it stopped early with a checkpoint.
  int train();

  std::uint64_t total_steps() const { return total_steps_; }
  layers::Network& network() { return network_; }
  const Progress& progress() const { return progress_; }

 private:
  void run_step();
  /// Trains on the next batch, the part of a step that a timeline shows.
  void train_on_batch(double learning_rate, double density);
  /// Runs forward and backward. With overlap the last micro-batch's backward is only started: exchange() finishes it.
  layers::LossResult forward_backward(const data::Batch& batch);
  /// Runs backward; `ready` may be empty.
  void backward(const layers::GradientReady& ready);
  void accumulate(ParameterId parameter);
  /// Returns the sums of the gradients, which are not committed.
  std::span<const exchange::BucketSum> exchange(const exchange::ExchangeStep& step);
  /// Exchanges and updates. Returns false if the ranks agree to skip the step.
  bool update(double learning_rate, double density);
  /// Collective, once in every step. Agrees on the ranks' words and the signals that reached them. @throws
  /// comm::AgreedError if a bucket was not finite in step `exchanged` (from 1).
  exchange::StepWord agree_on_step(exchange::StepWord mine, std::uint64_t exchanged);
  float local_clip();
  void apply_update(std::span<const exchange::BucketSum> sums, double learning_rate);
  void open_metrics();
  void record_step(StepRecord record);
  /// Collective. Writes a histogram of all ranks' residuals for TensorBoard, if the run writes for it.
  void record_residuals();
  void warn_if_traffic_exceeds_dense(const StepRecord& record);
  void warn_if_not_repeated();
  void warn(std::string warning);
  SelectionQuestion selection_question() const;
  /// Returns whether the run ends before its counts have settled.
  bool ends_unsettled() const;
  void tell_advice();
  /// Logs a line that ends in this advice; a warning if dense is faster.
  void tell(const std::string& text, const StepAdvice& advice);
  bool has_advice() const;
  /// Prepares to compare the bytes of a step with those that the advice takes.
  void begin_traffic_check();
  /// Collective in a few steps. Corrects the advice in one line if a step sends other bytes.
  void check_traffic(double density);
  void record_backward();
  void choose_none();
  bool selection_fits() const;
  void evaluate_now();
  void save_checkpoint();
  void load_model_state(const Archive& model, const std::filesystem::path& checkpoint);
  /// Restores this rank's own file.
  void load_rank_state(const Archive& rank, const DataPosition& position);
  /// Restores what ranks of another number of workers saved; reads the files that concern this rank, one at a time.
  void take_over_ranks(const Archive& model, const std::filesystem::path& checkpoint, int workers);
  /// Continues from a position in the data.
  void continue_at(const DataPosition& position);
  /// Sets the number of steps of the run, from its position and the limit in steps.
  void set_length();
  /// Reports how a run goes on with another number of workers.
  void tell_resize(const DataPosition& position, int workers);
  void finish();

  bool is_due(std::int64_t every) const { return every > 0 && progress_.step % static_cast<std::uint64_t>(every) == 0; }
  bool epoch_is_due(std::int64_t every) const;
  bool checkpoint_is_due() const;
  /// Returns whether so many evaluations have not improved on the best one that the run ends (train.patience). All
  /// ranks have the same evaluations.
  bool is_out_of_patience() const;
  /// Returns the reason of the end: "epochs", "max_steps" or "patience".
  const char* ended_by() const;
  double bytes_sent_by_all();
  /// Returns the rate of training steps, over all ranks.
  double samples_per_second() const;
  double epochs_done() const { return position_.epochs_done(progress_.step); }
  TimeKind time_kind() const;
  /// Makes the run's time continue from `time`.
  void begin_clock_at(Moment time);
  /// Returns the time on this rank since the run began.
  Moment elapsed() const;
  Moment run_time();
  View<const float> gradient() const;
  Device device() const { return network_.arena().values().device(); }
  std::span<const float> parameters() { return parameters_.of(network_.arena().values()); }

  const RunSpec& config_;
  const RunPlan& plan_;
  comm::Communicator& communicator_;
  RunFolder folder_;
  const std::vector<std::string>& data_warnings_;
  layers::Network network_;
  data::Loader loader_;
  data::EvaluationLoader test_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::Schedule> schedule_;
  std::unique_ptr<exchange::GradientExchange> exchange_;
  std::unique_ptr<GradientDump> dump_;
  CheckpointStore checkpoints_;
  std::unique_ptr<MetricsWriter> metrics_;  // rank 0 only, from the first step on
  std::unique_ptr<ProgressReport> report_;  // likewise
  std::unique_ptr<StepTimeline> timeline_;  // null without logging.trace, and before the first step
  RunPosition position_;
  std::uint64_t scheduled_steps_ = 0;          ///< steps of all epochs, as position_ schedules them
  std::uint64_t total_steps_ = 0;              ///< updates of the whole run
  std::optional<TensorSelection> selection_;   // where the run wants costs
  exchange::ByteForecast predicted_;           ///< of a step at the target density
  std::optional<TrafficCheck> traffic_check_;  // where ranks exchange selections
  Buffer<float> accumulated_;                  ///< sum over micro-batches; empty without gradient accumulation
  kernels::HostMirror<float> parameters_;      ///< for hashes and checkpoints
  Progress progress_;
  Moment clock_offset_;  ///< from the group's clock to the run's, which continues after a resume
  StepSample sample_;
  bool stop_requested_ = false;                     // a signal has reached some rank
  bool skipped_ = false;                            // the last step, whose gradient was not finite
  std::unique_ptr<OverlappedBackward> overlapped_;  // null without overlap. Last: its thread uses the members above
};

/// Fills a network, made by `config`, with the parameters and the averaged statistics of a checkpoint folder, of any
/// world size. Returns the steps after which it was saved.
/// @throws ConfigError, DataError (see CheckpointStore::read_model); ConfigError for another model's.
std::uint64_t load_model(const std::filesystem::path& checkpoint, const Config& config, layers::Network& network);

}  // namespace dragonn::trainer

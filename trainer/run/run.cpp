// SPDX-License-Identifier: MIT
#include "trainer/run/run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include "comm/agreement.h"
#include "core/fault_point.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/program.h"
#include "core/units_text.h"
#include "trainer/config/config.h"
#include "trainer/config/exchange_config.h"
#include "trainer/metrics/event_file.h"
#include "trainer/run/device_choice.h"
#include "trainer/run/evaluation.h"
#include "trainer/run/plan.h"
#include "trainer/run/state_donor.h"
#include "trainer/run/state_taker.h"
#include "trainer/run/training.h"
#include "trainer/weights/model_weights.h"

namespace dragonn::trainer {
namespace {

namespace fs = std::filesystem;

/// Sets the threads of this rank, before it makes its first plan: plans keep their number.
void set_threads(const Config& config) {
  omp_set_num_threads(static_cast<int>(config.comm.threads_per_worker));
}

/// Returns the checkpoint that `given` names for `option`: "auto", a checkpoint folder or a run folder. Empty: a fresh
/// start.
fs::path find_checkpoint(const char* option, const std::string& given, const RunFolder& folder) {
  if (given.empty()) return {};
  if (given == "auto") return CheckpointStore(folder.checkpoints()).newest();
  require(fs::is_directory(given), "{} {}: no such folder", option, given);
  const RunFolder run{given};
  if (!fs::exists(run.checkpoints())) {
    CheckpointStore::require_complete(given);
    return given;
  }
  const fs::path newest = CheckpointStore(run.checkpoints()).newest();
  require(!newest.empty(), "{} {}: no complete checkpoint in {}", option, given, run.checkpoints().string());
  return newest;
}

/// Moves the files of an earlier run to the subfolder earlier-N, and nothing else: the folder may hold a user's own
/// files.
void move_aside(const RunFolder& folder) {
  fs::path target;
  std::vector<fs::path> files = event_files(folder.path);
  files.insert(files.end(), {folder.config(), folder.metrics(), folder.summary(), folder.log(), folder.profile(),
                             folder.trace(), folder.membership(), folder.checkpoints(), folder.gradients()});
  for (const fs::path& file : files) {
    if (!fs::exists(file)) continue;
    if (target.empty()) {
      int number = 1;
      while (fs::exists(folder.path / fmt::format("earlier-{}", number))) ++number;
      target = folder.path / fmt::format("earlier-{}", number);
      fs::create_directory(target);
      log::warning(0, "{} holds an earlier run: its files are moved to {}", folder.path.string(), target.string());
    }
    fs::rename(file, target / file.filename());
  }
}

/// Prepares the folder on rank 0 and locks it; returns the checkpoint to resume from. Nothing is changed if the
/// run's profile or weights are unusable, or another run is at work there.
fs::path prepare_folder(const Job& job, Training& training, FolderLock& lock) {
  try {
    require(!fs::exists(job.folder.path) || fs::is_directory(job.folder.path), "--output {} is a file, not a folder",
            job.folder.path.string());
    const fs::path checkpoint = find_checkpoint("--resume", job.resume, job.folder);
    if (checkpoint.empty()) training.prepare_fresh();
    fs::create_directories(job.folder.path);
    lock = FolderLock(job.folder.path);
    if (checkpoint.empty()) move_aside(job.folder);
    write_file_atomically(job.folder.config(), to_toml(job.config));
    log::set_file(job.folder.log());
    return checkpoint;
  } catch (const fs::filesystem_error& error) {
    throw SystemError(fmt::format("cannot prepare {}: {}", job.folder.path.string(), error.code().message()));
  }
}

/// Returns "topk: each worker sends about 1 % of its gradient, 55 kB a step", or the method alone if it selects
/// nothing. The cost model may leave some of that dense.
std::string describe_method(const Config& config, const RunPlan& plan, int workers) {
  const CompressionConfig& compression = config.compression;
  const std::string period = config.update.describe_period();
  if (!compression.selects()) return compression.method + period;
  std::string text =
      density_decides(compression)
          ? fmt::format("{}: each worker sends about {:.4g} % of its gradient", compression.method,
                        100 * compression.density)
          : fmt::format("{}: each worker sends what it selects, whatever the density", compression.method);
  if (workers > 1 && !selects_by_cost(config))
    text += fmt::format(", {} a step", exchange::describe(per_step(plan.bytes, plan.steps_per_exchange)));
  if (workers > 1 && !plan.scheduled_bytes.empty())
    text += fmt::format(", and at other times, by the schedule, {}", describe_schedule(plan, plan.steps_per_exchange));
  return text + period;
}

/// Returns "compute time is measured CPU time".
std::string describe_compute(const NetworkConfig& network) {
  const bool is_measured = network.compute == comm::Compute::kMeasured;
  if (network.step_ms == 0) return is_measured ? "compute time is measured CPU time" : "compute time is zero";
  const std::string slowest = network.slowest > 1 ? " to " + seconds_text(network.slowest * network.step_ms / 1e3) : "";
  return fmt::format("forward and backward take {}{} a step, other work {}", seconds_text(network.step_ms / 1e3),
                     slowest, is_measured ? "its CPU time" : "no time");
}

/// Logs the nodes of workers that are on several, and what the exchange makes of them.
void log_nodes(const RunPlan& plan, int rank) {
  if (plan.nodes.count() == 1 && !plan.rules.nodes) return;
  log::info(rank, "{}: {}", comm::describe(plan.nodes),
            plan.rules.nodes ? "gradients are summed inside a node, and exchanged between nodes (comm.hierarchy)"
                             : "every worker exchanges with all others");
}

/// Logs the kind of the run's times, if a network is modelled.
void log_network(const Config& config, const comm::Communicator& communicator) {
  const auto network = config.network.modelled();
  if (!network) return;
  const std::string text = config.network.describe();
  if (communicator.clock().is_virtual()) {
    log::info(communicator.rank(), "virtual cluster: {}; {}; all times are virtual and count training steps only", text,
              describe_compute(config.network));
  } else {
    log::info(communicator.rank(),
              "decisions and warnings assume a network of {} (network.model); times are wall times", text);
  }
}

/// Trains. An error of this rank alone gets its rank and activity as a prefix, if there are other ranks; errors that
/// all share name their rank already.
int train(Training& training, const comm::Communicator& communicator) {
  try {
    return training.train();
  } catch (const comm::CollectiveError&) {
    throw;
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& failure) {
    if (communicator.size() == 1) throw;
    const std::string activity = communicator.activity().describe();
    throw Error(
        fmt::format("rank {}{}{}: {}", communicator.rank(), activity.empty() ? "" : ", ", activity, failure.what()));
  }
}

}  // namespace

fs::path run_of(const fs::path& named) {
  fs::path given = named.lexically_normal();
  if (!given.has_filename()) given = given.parent_path();  // "runs/a/"
  if (fs::is_directory(given / "checkpoints")) return given;
  return given.parent_path().filename() == "checkpoints" ? given.parent_path().parent_path() : fs::path();
}

fs::path config_of_run(const fs::path& named) {
  const fs::path run = run_of(named);
  if (!run.empty() && fs::exists(RunFolder{run}.config())) return RunFolder{run}.config();
  throw ConfigError(
      fmt::format("no config file given, and {} is not in a run folder with a config.toml", named.string()));
}

comm::LocalOptions local_options(const Config& config, int workers) {
  const NetworkConfig& network = config.network;
  const bool measured = network.compute == comm::Compute::kMeasured;
  const std::int64_t threads = config.comm.threads_per_worker;
  require(
      !network.modelled() || !measured || threads <= 1,
      "network.compute = \"measured\" does not go with comm.threads_per_worker = {}: a virtual cluster measures one "
      "thread per worker; expected 1, or network.compute = \"zero\"",
      threads);
  return {.timeout_s = config.comm.timeout_s,
          .network = network.modelled(),
          .nodes = network.node_links(workers),
          .compute = network.compute};
}

RankRun::RankRun(const Job& job, const Commits& commits) : job_(job), job_here_(job), commits_(commits) {}
RankRun::~RankRun() = default;

int RankRun::train(comm::Communicator& communicator, MembershipRecord* generation) {
  std::optional<ClockPause> setting_up(std::in_place, communicator.clock());
  const DeviceChoice choice = choose_device(job_.config, communicator);
  set_threads(job_.config);
  share_out_batch(generation);
  GpuLink link(job_.config, communicator, choice);
  try {
    if (generation != nullptr && generation->plan.place > 0) {
      go_on(communicator, choice, *generation);
    } else {
      begin(communicator, choice, generation);
    }
    setting_up.reset();
    const bool stops = generation != nullptr && generation->plan.stops;
    const int exit_code = stops ? training_->stop("the coordinator (too few workers, or a signal)")
                                : trainer::train(*training_, communicator);
    training_.reset();
    link.finish();
    return exit_code;
  } catch (const CommError&) {
    // What was left before stays until the next group has begun.
    if (has_begun_ && !left_) left_ = training_->leave();
    training_.reset();  // before its communicator
    throw;
  } catch (const std::exception&) {
    training_.reset();
    throw;
  }
}

void RankRun::begin(comm::Communicator& communicator, const DeviceChoice& choice, MembershipRecord* generation) {
  const int rank = communicator.rank();
  std::optional<layers::Network> network;
  std::optional<ByteBudget> budget;
  std::string checkpoint;
  lock_ = {};  // of a group that failed before it had begun
  taker_.reset();
  const comm::Nodes nodes = find_nodes(job_.config, communicator);
  comm::all_ranks_or_none(communicator, [&] {
    fault_point("start");
    network = make_network(job_.config, *job_.data.train, choice.device);
    budget = spend_budget(*network, nodes);
    if (budget) check(*budget, job_.config);
    plan_ = plan_run(job_here_.config, *network, nodes, choice.device);
  });
  check_resources(communicator, plan_, job_.config, job_.folder.path, choice);
  comm::all_ranks_or_none(communicator, [&] {
    make_state(std::move(*network));
    training_ = std::make_unique<Training>(job_here_, plan_, *state_, communicator);
  });
  comm::rank_zero_or_none(communicator, [&] { checkpoint = prepare_folder(job_, *training_, lock_).string(); });
  communicator.broadcast_text(0, checkpoint);
  if (communicator.rank() != 0 && donor_ != nullptr) log::set_file(job_.folder.log());

  log::info(rank, "dragonn {}: {} ({} parameters) on {} ({} samples), {} workers ({}), {}", version(),
            job_.config.model.name, plan_.parameters, job_.config.data.name, job_.data.train->size(),
            communicator.size(), comm::backend_name(communicator),
            describe_method(job_.config, plan_, communicator.size()));
  if (budget) log::info(rank, "{}", describe(*budget, job_.config));
  log::info(rank, "device: {}", choice.describe());
  log_nodes(plan_, rank);
  log_network(job_.config, communicator);
  for (const std::string& note : job_.config.notes) log::info(rank, "{}", note);
  for (const std::string& note : job_.data.notes) log::info(rank, "{}", note);
  if (checkpoint.empty()) {
    training_->share_initial_weights();
  } else {
    CheckpointSource source(checkpoint);
    training_->resume(source);
  }
  training_->choose_tensors();
  if (generation == nullptr) return;
  training_->restore_lost(*generation);
  generation->resumed = checkpoint;
  begin_generation(communicator, *generation);
}

void RankRun::go_on(comm::Communicator& communicator, const DeviceChoice& choice, MembershipRecord& generation) {
  const comm::Nodes nodes = find_nodes(job_.config, communicator);
  end_streams(communicator, generation);
  // A rank that fails here fails alone.
  if (!state_ || state_->device() != choice.device) {
    if (left_) left_->take_values();
    make_state(make_network(job_.config, *job_.data.train, choice.device));
  }
  // Members come and go: what their number makes too dear is no error.
  const std::optional<ByteBudget> budget = spend_budget(state_->network, nodes);
  plan_ = plan_run(job_here_.config, state_->network, nodes, state_->device());
  training_ = std::make_unique<Training>(job_here_, plan_, *state_, communicator);
  // Every member writes its warnings into the run's log: who is rank 0 changes.
  if (communicator.rank() == 0 || donor_ != nullptr) log::set_file(job_.folder.log());
  log::info(communicator.rank(), "generation {}: {} workers (members {}); {}", generation.plan.number,
            communicator.size(), fmt::join(generation.plan.members, ", "), generation.why);
  if (budget) log::info(communicator.rank(), "{}", describe(*budget, job_.config));
  take_state(communicator, generation);
  training_->go_on(*left_);
  training_->restore_lost(generation);
  begin_generation(communicator, generation);
}

void RankRun::end_streams(comm::Communicator& communicator, const MembershipRecord& generation) {
  const std::vector<int>& members = generation.plan.members;
  std::vector<std::uint64_t> updates(members.size());
  if (donor_ != nullptr) std::ranges::transform(members, updates.begin(), [&](int id) { return donor_->hurry(id); });
  communicator.allreduce_max(std::span(updates));
  if (!taker_) return;
  left_ = taker_->finish(updates[static_cast<std::size_t>(communicator.rank())]);
  taker_.reset();
}

void RankRun::take_state(comm::Communicator& communicator, MembershipRecord& generation) {
  const std::vector<int>& members = generation.plan.members;
  // What a donor that is gone had may never have counted.
  const bool is_streamed = left_ && left_->origin();
  if (is_streamed && !std::ranges::binary_search(members, left_->origin()->donor)) left_.reset();
  // A rank that gets a copy was in no group before this one.
  if (left_) left_->set_same_ranks(generation.before == members);
  const std::size_t rest = share_state(
      communicator, left_, [&](const std::string& field) { return training_->generation().stays_with_rank(field); },
      [&] { training_->take_over(*left_); });
  const LeftState::Origin origin = left_->origin().value_or(LeftState::Origin{-1, 0});
  const std::array<std::int64_t, 3> mine{origin.donor, static_cast<std::int64_t>(origin.place),
                                         static_cast<std::int64_t>(rest)};
  std::vector<std::int64_t> all(mine.size() * members.size());
  communicator.allgather_values(std::span<const std::int64_t>(mine), std::span(all));
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const std::span<const std::int64_t> of_rank = std::span(all).subspan(rank * mine.size(), mine.size());
    if (of_rank[0] < 0) continue;
    generation.streams.push_back({members[rank], static_cast<int>(of_rank[0]), static_cast<std::uint64_t>(of_rank[1]),
                                  static_cast<std::uint64_t>(of_rank[2])});
  }
}

void RankRun::begin_generation(comm::Communicator& communicator, MembershipRecord& generation) {
  Training& training = *training_;
  generation.step = state_->progress.step;
  const std::uint64_t hash = check_replicas(communicator, training.generation().model_parameters(), generation.step);
  generation.parameters_hash = hash_text(hash);
  comm::rank_zero_or_none(communicator, [&] { append_membership(job_.folder.membership(), generation); });
  state_->commits.run([&] { communicator.barrier(); });
  has_begun_ = true;
  training.count_lost();
  if (state_->copies) state_->copies->forget_lost(generation.plan.members);
  left_.reset();
  if (donor_ != nullptr) donor_->end(generation.plan.members);
}

void RankRun::begin_at(std::uint64_t place) {
  if (has_begun_) return;
  commits_.begin_at(place);
  if (state_) state_->commits.begin_at(place);
}

void RankRun::share_out_batch(const MembershipRecord* generation) {
  if (generation == nullptr || job_.config.train.global_batch == GlobalBatch::kPerWorker) return;
  const auto workers = static_cast<double>(generation->plan.members.size());
  const double batch =
      static_cast<double>(job_.config.train.batch_size) * static_cast<double>(generation->plan.first) / workers;
  job_here_.config.train.batch_size = std::max<std::int64_t>(1, std::llround(batch));
}

std::optional<ByteBudget> RankRun::spend_budget(const layers::Network& network, const comm::Nodes& nodes) {
  job_here_.config.compression = job_.config.compression;
  if (bytes_share(job_.config.compression) == 0) return std::nullopt;
  const std::uint64_t steps = steps_per_epoch(job_.config, *job_.data.train, nodes.ranks());
  const std::optional<ByteBudget> budget = byte_budget(job_.config, network, steps, nodes);
  if (budget) apply(*budget, job_here_.config);
  return budget;
}

void RankRun::make_state(layers::Network network) {
  state_.emplace(job_.config, std::move(network));
  state_->commits = commits_;
  state_->listener = listener_;
  if (!commits_.is_elastic() || job_.config.comm.residual_copies == 0) return;
  require(state_->device().is_cpu(),
          "comm.residual_copies = 1 needs device = \"cpu\": copies are kept by the processor");
  state_->copies.emplace();
}

void RankRun::set_copy(std::unique_ptr<LeftState> copy) {
  if (!has_begun_) left_ = std::move(copy);
}

void RankRun::set_listener(StateListener& listener) {
  listener_ = &listener;
  if (state_) state_->listener = &listener;
}

void RankRun::set_donor(StateDonor& donor) {
  donor_ = &donor;
  set_listener(donor);
}

void RankRun::fetch(comm::Member& member, std::uint64_t run) {
  set_threads(job_.config);
  make_state(make_network(job_.config, *job_.data.train));
  taker_ = std::make_unique<StateTaker>(member, run, *state_);
}

void RankRun::leave_at(const Commits::End& end) {
  commits_.leave_at(end);
  if (state_) state_->commits.leave_at(end);
}

int run_training(const Job& job, comm::Communicator& communicator) {
  return RankRun(job).train(communicator);
}

void run_evaluation(const Job& job, const fs::path& checkpoint, comm::Communicator& communicator) {
  const DeviceChoice choice = choose_device(job.config, communicator);
  if (communicator.rank() == 0) {
    for (const std::string& warning : job.data.warnings) log::warning(0, "{}", warning);
  }
  set_threads(job.config);
  layers::Network network = make_network(job.config, *job.data.test, choice.device);
  std::string found;  // by rank 0 for all: a run that is at work there may save another one meanwhile
  comm::rank_zero_or_none(communicator,
                          [&] { found = find_checkpoint("--evaluate", checkpoint.string(), job.folder).string(); });
  communicator.broadcast_text(0, found);
  comm::all_ranks_or_none(communicator, [&] {
    network.initialize(static_cast<std::uint64_t>(job.config.seed));
    load_model(found, job.config, network);
  });
  data::EvaluationLoader loader(job.data.test, static_cast<std::size_t>(job.config.train.eval_batch_size),
                                communicator.rank(), communicator.size(), choice.device);
  const EvaluationResult result = evaluate(communicator, network, loader);
  if (communicator.rank() != 0) return;
  fmt::print("{{\"split\": \"test\", \"samples\": {}, \"loss\": {}", result.samples, result.loss);
  for (const Quality& quality : result.qualities) fmt::print(", \"{}\": {}", quality.name, quality.value);
  fmt::print("}}\n");
  std::fflush(stdout);
}

layers::Network load_network(const RunSpec& config, const char* option, const fs::path& checkpoint,
                             std::uint64_t& step) {
  layers::Network network = make_network(config);
  network.initialize(static_cast<std::uint64_t>(config.seed));
  step = load_model(find_checkpoint(option, checkpoint.string(), {}), config, network);
  return network;
}

void run_export(const RunSpec& config, const fs::path& checkpoint, const fs::path& file) {
  require(!fs::is_directory(file), "--export {}: it is a folder", file.string());
  std::uint64_t step = 0;
  layers::Network network = load_network(config, "--from", checkpoint, step);
  const std::optional<layers::WeightsForm>& form = config.model.entry().weights;
  export_weights(file, network, {.model = config.model.name, .step = step}, form);
  log::info(0, "wrote {} tensors of {} after step {} to {}", network.tensors().size(), config.model.name, step,
            file.string());
  if (!form || file.filename() != "model.safetensors") return;
  // Of that name the other program finds the weights in a folder, where it wants the model's description beside them.
  const fs::path description = file.parent_path() / "config.json";
  write_file_atomically(description, form->config(config.model.settings, {network.sample_shape(), network.classes()}));
  log::info(0, "wrote {}", description.string());
}

}  // namespace dragonn::trainer

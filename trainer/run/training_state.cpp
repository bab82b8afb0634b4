// SPDX-License-Identifier: MIT
#include "trainer/run/training_state.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/memory_ledger.h"
#include "kernels/nn/elementwise.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/state_listener.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kConfig = "config";
constexpr const char* kConfigHash = "config_hash";
constexpr const char* kStatistics = "statistics";
constexpr const char* kCarriedState = "carried_state";
constexpr const char* kBytesSent = "bytes_sent";
constexpr const char* kStep = "progress/step";
constexpr const char* kBusySeconds = "progress/busy_seconds";
constexpr const char* kSynchronizedStep = "progress/synchronized_step";
constexpr const char* kSeconds = "seconds";
constexpr const char* kDenseIsFaster = "progress/dense_is_faster";
constexpr const char* kSamples = "progress/samples";
constexpr const char* kEvaluationsSinceBest = "progress/evaluations_since_best";

void save_time(Archive& archive, const std::string& name, Moment time) {
  archive.put(name, time.seconds);
  archive.put(name + "_ideal", time.ideal);
}

Moment load_time(const Archive& archive, const std::string& name) {
  return {archive.get<double>(name), archive.get<double>(name + "_ideal")};
}

void save_eval(Archive& archive, const std::string& prefix, const std::optional<EvalRecord>& eval) {
  if (!eval) return;
  archive.put(prefix + "step", eval->step);
  archive.put(prefix + "epoch", eval->epoch);
  archive.put(prefix + "loss", eval->loss);
  archive.put(prefix + "qualities", static_cast<std::uint64_t>(eval->qualities.size()));
  for (std::size_t i = 0; i < eval->qualities.size(); ++i) {
    archive.put_text(fmt::format("{}quality{}/name", prefix, i), eval->qualities[i].name);
    archive.put(fmt::format("{}quality{}/value", prefix, i), eval->qualities[i].value);
  }
  save_time(archive, prefix + "time", eval->time);
}

std::optional<EvalRecord> load_eval(const Archive& archive, const std::string& prefix) {
  if (!archive.contains(prefix + "step")) return std::nullopt;
  EvalRecord eval{.step = archive.get<std::uint64_t>(prefix + "step"),
                  .epoch = archive.get<double>(prefix + "epoch"),
                  .loss = archive.get<double>(prefix + "loss"),
                  .time = load_time(archive, prefix + "time")};
  const auto qualities = archive.get<std::uint64_t>(prefix + "qualities");
  for (std::uint64_t i = 0; i < qualities; ++i) {
    eval.qualities.push_back({archive.get_text(fmt::format("{}quality{}/name", prefix, i)),
                              archive.get<double>(fmt::format("{}quality{}/value", prefix, i))});
  }
  return eval;
}

void save_progress(Archive& archive, const Progress& progress) {
  archive.put(kStep, progress.step);
  archive.put(kSamples, progress.samples);
  archive.put("progress/step_seconds", progress.step_seconds);
  archive.put(kBusySeconds, progress.busy_seconds);
  archive.put("progress/density_sum", progress.density_sum);
  archive.put("progress/warnings", static_cast<std::uint64_t>(progress.warnings.size()));
  for (std::size_t i = 0; i < progress.warnings.size(); ++i) {
    archive.put_text(fmt::format("progress/warning{}", i), progress.warnings[i]);
  }
  archive.put(kDenseIsFaster, static_cast<std::uint64_t>(progress.dense_is_faster ? 1 : 0));
  if (progress.lost.members > 0) {
    archive.put_array<std::uint64_t>("progress/lost_members", std::array{progress.lost.members, progress.lost.unknown});
    archive.put_array<double>("progress/lost_mass",
                              std::array{progress.lost.sum, progress.lost.l1, progress.lost.restored_sum});
  }
  save_eval(archive, "progress/last/", progress.last);
  save_eval(archive, "progress/best/", progress.best);
  archive.put(kEvaluationsSinceBest, progress.evaluations_since_best);
}

Progress load_progress(const Archive& archive) {
  Progress progress;
  progress.step = archive.get<std::uint64_t>(kStep);
  progress.samples = archive.get<std::uint64_t>(kSamples);
  progress.step_seconds = archive.get<double>("progress/step_seconds");
  if (archive.contains(kBusySeconds)) progress.busy_seconds = archive.get<double>(kBusySeconds);
  progress.density_sum = archive.get<double>("progress/density_sum");
  const auto warnings = archive.get<std::uint64_t>("progress/warnings");
  for (std::uint64_t i = 0; i < warnings; ++i) {
    progress.warnings.push_back(archive.get_text(fmt::format("progress/warning{}", i)));
  }
  progress.dense_is_faster = archive.get<std::uint64_t>(kDenseIsFaster) != 0;
  if (archive.contains("progress/lost_members")) {
    std::array<std::uint64_t, 2> members{};
    std::array<double, 3> mass{};
    archive.get_array<std::uint64_t>("progress/lost_members", members);
    archive.get_array<double>("progress/lost_mass", mass);
    progress.lost = {members[0], members[1], mass[0], mass[1], mass[2]};
  }
  progress.last = load_eval(archive, "progress/last/");
  progress.best = load_eval(archive, "progress/best/");
  progress.evaluations_since_best = archive.get<std::uint64_t>(kEvaluationsSinceBest);
  return progress;
}

/// Returns the config of the run that saved the checkpoint; nothing if it is not one of this version.
std::optional<Config> saved_config(const Archive& model) {
  try {
    return parse_config(model.get_text(kConfig), "the checkpoint's config");
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Checks the model. @throws ConfigError that names both models if the checkpoint's is another one than `config` names.
void require_same_model(const Archive& model, const std::string& source, const Config& config,
                        const layers::Network& network) {
  const std::optional<Config> saved = saved_config(model);
  const std::size_t parameters = network.arena().size();
  const std::size_t saved_parameters = model.bytes(kParameters).size() / sizeof(float);
  const std::string saved_name = saved ? saved->model.name : "unknown";
  require(saved_parameters == parameters && (!saved || saved_name == config.model.name),
          "{} holds the model '{}' of {} parameters, and the config names the model '{}' of {}: expected the config of "
          "the run that saved it",
          source, saved_name, saved_parameters, config.model.name, parameters);
}

}  // namespace

TrainingState::TrainingState(const RunSpec& run, layers::Network untrained)
    : config(run), network(std::move(untrained)) {
  const MemoryLabel label("parameters, gradients and optimizer");
  network.initialize(static_cast<std::uint64_t>(config.seed));
  optimizer = config.optimizer.entry().make(config.optimizer.settings, network.arena());
}

void TrainingState::lay_out(std::uint64_t samples_per_step, std::uint64_t steps_per_epoch) {
  position = RunPosition(samples_per_step, steps_per_epoch);
  scheduled_steps = static_cast<std::uint64_t>(config.train.epochs) * steps_per_epoch;
  schedule = config.schedule.entry().make(config.schedule.settings,
                                          {config.optimizer.learning_rate, steps_per_epoch, scheduled_steps});
  set_length();
}

void TrainingState::set_length() {
  const auto limit = static_cast<std::uint64_t>(config.train.max_steps);
  total_steps = position.step_at(scheduled_steps);
  if (limit > 0) total_steps = std::min(total_steps, limit);
}

bool TrainingState::shares_optimizer() const {
  return !config.update.steps_locally();
}

void TrainingState::save_values(Archive& model, std::span<const float> model_parameters) {
  model.put_array<float>(kParameters, model_parameters);
  if (shares_optimizer()) optimizer->save(model, kOptimizer);
}

std::vector<optim::StateArray> TrainingState::values() {
  std::vector<optim::StateArray> arrays{{kParameters, network.arena().values()}};
  if (!shares_optimizer()) return arrays;
  for (const auto& [name, values] : optimizer->state()) arrays.push_back({kOptimizer + name, values});
  return arrays;
}

void TrainingState::save_rest(Archive& model, std::span<const float> mean_statistics) {
  model.put_text(kConfig, to_toml(config));
  model.put_text(kConfigHash, config_hash(config));
  model.put_array<float>(kStatistics, mean_statistics);
  schedule->save(model, "schedule/");
  save_progress(model, progress);
  model.put(kSynchronizedStep, synchronized_step);
  save_position(model, position.at(progress.step));
}

void TrainingState::save_rank(Archive& rank) {
  if (!shares_optimizer()) optimizer->save(rank, kOptimizer);
  kernels::HostMirror<float> statistics, carried;
  rank.put_array<float>(kStatistics, statistics.of(network.statistics()));
  rank.put(kStep, progress.step);
  save_position(rank, position.at(progress.step));
  rank.put(kBytesSent, progress.bytes_sent);
  save_time(rank, kSeconds, progress.time);
  rank.put_array<float>(kCarriedState, carried.of(network.state(layers::Mode::kTrain)));
}

DataPosition TrainingState::reshard_from(StateSource& source, int workers,
                                         const RunPosition::ContinueEpoch& continue_epoch) {
  const Archive& model = source.model();
  if (!source.leaves_values()) {
    require_same_model(model, source.name(), config, network);
    kernels::get_view(model, kParameters, network.arena().values());
  }
  schedule->load(model, "schedule/");
  progress = load_progress(model);
  // Checkpoints of earlier versions were saved at such steps only.
  synchronized_step = model.contains(kSynchronizedStep) ? model.get<std::uint64_t>(kSynchronizedStep) : progress.step;
  DataPosition stopped = load_position(model);
  position.resume(progress.step, stopped, continue_epoch);
  set_length();
  network.reset_state(layers::Mode::kTrain);
  if (!source.has_same_ranks(workers)) {
    const std::vector<float> statistics = model.get_vector<float>(kStatistics);
    network.resize(View<const float>(std::span<const float>(statistics)));
    progress.dense_is_faster = false;  // that depends on the number of workers
  }
  return stopped;
}

std::vector<float> TrainingState::statistics_of(const Archive& rank) {
  return rank.get_vector<float>(kStatistics);
}

void TrainingState::load_rank(const Archive& rank, const DataPosition& stopped,
                              const RunPosition::ContinueEpoch& continue_epoch) {
  kernels::get_view(rank, kStatistics, network.statistics());
  // With another batch size the rest of the epoch is dealt out anew, from one place for all ranks: rank 0's.
  const bool steps_stay = stopped.parts.back().samples_per_step == position.samples_per_step();
  if (steps_stay && rank.contains(kStep)) progress.step = rank.get<std::uint64_t>(kStep);
  if (steps_stay && has_position(rank)) position.resume(progress.step, load_position(rank), continue_epoch);
  progress.bytes_sent = rank.get<double>(kBytesSent);
  progress.time = load_time(rank, kSeconds);
  const std::vector<float> carried = rank.get_vector<float>(kCarriedState);
  if (carried.empty() || !steps_stay) return;  // the rows of another batch are at other places of the data
  network.set_state(layers::Mode::kTrain, batch_size, View<const float>(std::span<const float>(carried)));
}

void TrainingState::load_optimizer(const Archive& model, const Archive& rank) {
  const bool is_own = exchange::has_fields(rank, kOptimizer);
  require(!is_own || !shares_optimizer(),
          "every worker of the checkpoint has an optimizer of its own, and with update.scheme = \"{}\" they share one: "
          "expected the scheme that saved it",
          config.update.scheme.name);
  optimizer->load(is_own ? rank : model, kOptimizer);
}

void TrainingState::add_rank(const Archive& rank, const exchange::ReshardedParts& what) {
  if (what.memories) progress.bytes_sent += rank.get<double>(kBytesSent);
  const Moment time = load_time(rank, kSeconds);
  progress.time.seconds = std::max(progress.time.seconds, time.seconds);
  progress.time.ideal = std::max(progress.time.ideal, time.ideal);
}

void TrainingState::tell_update(const LoggedUpdate& update) {
  if (copies) copies->take_update(update.sums);
  if (listener != nullptr) listener->take_update(update);
}

void TrainingState::observe(const EvalRecord& record) {
  progress.last = record;
  // The one at a limit in steps does not count: a run that goes on from there would not have made it.
  if (epoch_is_due(config.train.eval_every_epochs)) ++progress.evaluations_since_best;
  if (!progress.best || is_better(record, *progress.best)) {
    progress.best = record;
    progress.evaluations_since_best = 0;
  }
  schedule->observe(record.loss);
}

bool TrainingState::is_out_of_patience() const {
  const auto patience = static_cast<std::uint64_t>(config.train.patience);
  return patience > 0 && progress.evaluations_since_best >= patience;
}

const char* TrainingState::ended_by() const {
  if (progress.step < total_steps) return "patience";
  return total_steps < position.step_at(scheduled_steps) ? "max_steps" : "epochs";
}

std::string changes_since(const Archive& model, const Config& config) {
  if (model.get_text(kConfigHash) == config_hash(config)) return "";
  const std::optional<Config> saved = saved_config(model);
  if (!saved) return "the config differs from the checkpoint's";
  const std::vector<std::string> changes = config_changes(*saved, config);
  // A key that is newer than the checkpoint changes the hash, and nothing if it has its default.
  return changes.empty() ? "" : fmt::format("changed since the checkpoint: {}", fmt::join(changes, ", "));
}

std::uint64_t load_model(const std::filesystem::path& checkpoint, const Config& config, layers::Network& network) {
  const Archive model = CheckpointStore::read_model(checkpoint);
  require_same_model(model, checkpoint.string(), config, network);
  kernels::get_view(model, kParameters, network.arena().values());
  kernels::get_view(model, kStatistics, network.statistics());
  return load_progress(model).step;
}

}  // namespace dragonn::trainer

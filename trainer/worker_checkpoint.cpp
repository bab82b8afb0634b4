// SPDX-License-Identifier: MIT
/// Worker's save and resume: the content of a checkpoint.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agreement.h"
#include "core/fault_point.h"
#include "core/log.h"
#include "kernels/nn/elementwise.h"
#include "trainer/weights/model_weights.h"
#include "trainer/worker.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kConfig = "config";
constexpr const char* kConfigHash = "config_hash";
constexpr const char* kParameters = "parameters";
constexpr const char* kStatistics = "statistics";
constexpr const char* kCarriedState = "carried_state";
constexpr const char* kBytesSent = "bytes_sent";
constexpr const char* kSeconds = "seconds";
constexpr const char* kSelection = "tensor_selection";
constexpr const char* kDenseIsFaster = "progress/dense_is_faster";
constexpr const char* kSamples = "progress/samples";
constexpr const char* kEvaluationsSinceBest = "progress/evaluations_since_best";

/// Reads a field. @throws DataError if it has not as many values.
void read_array(const Archive& archive, const std::string& name, View<float> values) {
  Buffer<float> read(values.size());
  archive.get_array(name, read.host());
  kernels::copy(read.view(), values);
}

void save_time(Archive& archive, const std::string& name, Moment time) {
  archive.put(name, time.seconds);
  archive.put(name + "_ideal", time.ideal);
}

/// Reads a time. Checkpoints of earlier versions have no ideal time.
Moment load_time(const Archive& archive, const std::string& name) {
  const double seconds = archive.get<double>(name);
  return {seconds, archive.contains(name + "_ideal") ? archive.get<double>(name + "_ideal") : seconds};
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
  archive.put("progress/step", progress.step);
  archive.put(kSamples, progress.samples);
  archive.put("progress/step_seconds", progress.step_seconds);
  archive.put("progress/density_sum", progress.density_sum);
  archive.put("progress/warnings", static_cast<std::uint64_t>(progress.warnings.size()));
  for (std::size_t i = 0; i < progress.warnings.size(); ++i) {
    archive.put_text(fmt::format("progress/warning{}", i), progress.warnings[i]);
  }
  archive.put(kDenseIsFaster, static_cast<std::uint64_t>(progress.dense_is_faster ? 1 : 0));
  save_eval(archive, "progress/last/", progress.last);
  save_eval(archive, "progress/best/", progress.best);
  archive.put(kEvaluationsSinceBest, progress.evaluations_since_best);
}

Progress load_progress(const Archive& archive) {
  Progress progress;
  progress.step = archive.get<std::uint64_t>("progress/step");
  progress.step_seconds = archive.get<double>("progress/step_seconds");
  progress.density_sum = archive.get<double>("progress/density_sum");
  const auto warnings = archive.get<std::uint64_t>("progress/warnings");
  for (std::uint64_t i = 0; i < warnings; ++i) {
    progress.warnings.push_back(archive.get_text(fmt::format("progress/warning{}", i)));
  }
  // Checkpoints of earlier versions lack this field.
  progress.dense_is_faster = archive.contains(kDenseIsFaster) && archive.get<std::uint64_t>(kDenseIsFaster) != 0;
  progress.last = load_eval(archive, "progress/last/");
  progress.best = load_eval(archive, "progress/best/");
  if (archive.contains(kEvaluationsSinceBest))
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
void require_same_model(const Archive& model, const std::filesystem::path& checkpoint, const Config& config,
                        const layers::Network& network) {
  const std::optional<Config> saved = saved_config(model);
  const std::size_t parameters = network.arena().size();
  const std::size_t saved_parameters = model.bytes(kParameters).size() / sizeof(float);
  const std::string saved_name = saved ? saved->model.name : "unknown";
  if (saved_parameters == parameters && (!saved || saved_name == config.model.name)) return;
  throw ConfigError(
      fmt::format("{} holds the model '{}' of {} parameters, and the config names the model '{}' of {}: "
                  "expected the config of the run that saved it",
                  checkpoint.string(), saved_name, saved_parameters, config.model.name, parameters));
}

/// Returns a warning about a resumed run's changed config; empty if no change affects a number.
std::string changes_since(const Archive& model, const Config& config) {
  if (model.get_text(kConfigHash) == config_hash(config)) return "";
  const std::optional<Config> saved = saved_config(model);
  if (!saved) return "the config differs from the checkpoint's";
  return fmt::format("changed since the checkpoint: {}", fmt::join(config_changes(*saved, config), ", "));
}

/// Returns the position in a checkpoint. Those of earlier versions have none: they follow from the steps as long as a
/// step takes as many samples as then.
DataPosition position_of(const Archive& model, const std::filesystem::path& checkpoint, const RunPosition& own,
                         int workers, int workers_now) {
  if (has_position(model)) return load_position(model);
  if (workers != workers_now) {
    throw ConfigError(
        fmt::format("{} is of an earlier version and does not say which samples are done: only {} workers, which saved "
                    "it, can resume from it; expected --workers {}",
                    checkpoint.string(), workers, workers));
  }
  const auto step = model.get<std::uint64_t>("progress/step");
  return {step / own.steps_per_epoch(), {{own.samples_per_step(), step % own.steps_per_epoch()}}};
}

}  // namespace

void Worker::save_checkpoint() {
  progress_.time = elapsed();
  Buffer<float> averaged;
  {
    const AveragedStatistics scope(communicator_, network_);
    averaged.resize_discard(network_.statistics().size());
    kernels::copy(network_.statistics(), averaged.view());
  }
  kernels::HostMirror<float> statistics, state;
  checkpoints_.save(communicator_, progress_.step, [&](Archive* model, Archive& rank) {
    fault_point("save");
    exchange_->save(rank);
    rank.put_array<float>(kStatistics, statistics.of(network_.statistics()));
    rank.put(kBytesSent, progress_.bytes_sent);
    save_time(rank, kSeconds, progress_.time);
    rank.put_array<float>(kCarriedState, state.of(network_.state(layers::Mode::kTrain)));
    if (model == nullptr) return;
    model->put_text(kConfig, to_toml(config_));
    model->put_text(kConfigHash, config_hash(config_));
    model->put_array<float>(kParameters, parameters());
    model->put_array<float>(kStatistics, averaged.host());
    optimizer_->save(*model, "optimizer/");
    schedule_->save(*model, "schedule/");
    save_progress(*model, progress_);
    save_position(*model, position_.at(progress_.step));
    // What was measured for an advice alone decides nothing: a resumed run measures it anew.
    if (selection_ && wants_costs(config_, communicator_.size())) model->put_text(kSelection, to_json(*selection_));
  });
  if (communicator_.rank() != 0) return;
  const bool keep_best = config_.checkpoint.keep_best && progress_.best.has_value();
  checkpoints_.prune(config_.checkpoint.keep, keep_best ? std::optional(progress_.best->step) : std::nullopt);
}

void Worker::resume(const std::filesystem::path& checkpoint) {
  int workers = 0;
  DataPosition position;
  comm::all_ranks_or_none(communicator_, [&] {
    fault_point("resume");
    const Archive model = CheckpointStore::read_model(checkpoint);
    workers = CheckpointStore::workers(model);
    load_model_state(model, checkpoint);
    position = position_of(model, checkpoint, position_, workers, communicator_.size());
    continue_at(position);
    if (workers == communicator_.size()) {
      load_rank_state(CheckpointStore::read_rank(checkpoint, communicator_.rank()), position);
      if (model.contains(kSelection)) {
        selection_ = parse_selection(model.get_text(kSelection), checkpoint.string());
      }
    } else {
      take_over_ranks(model, checkpoint, workers);
    }
    begin_clock_at(progress_.time);
    if (const std::string changes = changes_since(model, config_); !changes.empty()) {
      warn(fmt::format("resumed after step {}; {}", progress_.step, changes));
    }
  });
  log::info(communicator_.rank(), "resumes from {} after step {}", checkpoint.string(), progress_.step);
  if (workers != communicator_.size()) tell_resize(position, workers);
}

void Worker::load_model_state(const Archive& model, const std::filesystem::path& checkpoint) {
  require_same_model(model, checkpoint, config_, network_);
  read_array(model, kParameters, network_.arena().values());
  optimizer_->load(model, "optimizer/");
  schedule_->load(model, "schedule/");
  progress_ = load_progress(model);
  // Checkpoints of earlier versions do not count samples.
  progress_.samples =
      model.contains(kSamples) ? model.get<std::uint64_t>(kSamples) : progress_.step * position_.samples_per_step();
}

void Worker::load_rank_state(const Archive& rank, const DataPosition& position) {
  exchange_->load(rank, progress_.step);
  read_array(rank, kStatistics, network_.statistics());
  progress_.bytes_sent = rank.get<double>(kBytesSent);
  progress_.time = load_time(rank, kSeconds);
  const std::vector<float> state = rank.get_vector<float>(kCarriedState);
  // With another batch size the rows of a batch are at other places of the data.
  const bool rows_stay = position.parts.back().samples_per_step == position_.samples_per_step();
  if (state.empty() || !rows_stay) return;
  network_.set_state(layers::Mode::kTrain, static_cast<std::size_t>(config_.train.batch_size),
                     View<const float>(std::span<const float>(state)));
}

void Worker::take_over_ranks(const Archive& model, const std::filesystem::path& checkpoint, int workers) {
  const std::vector<float> statistics = model.get_vector<float>(kStatistics);
  network_.resize(View<const float>(std::span<const float>(statistics)));
  progress_.dense_is_faster = false;  // that depends on the number of workers
  progress_.bytes_sent = 0;
  progress_.time = {};
  for (const auto& [saved, what] : exchange::ranks_to_take(communicator_.rank(), communicator_.size(), workers)) {
    const Archive archive = CheckpointStore::read_rank(checkpoint, saved);
    exchange_->reshard_from(archive, what, progress_.step);
    if (what.memories) progress_.bytes_sent += archive.get<double>(kBytesSent);
    const Moment time = load_time(archive, kSeconds);
    progress_.time.seconds = std::max(progress_.time.seconds, time.seconds);
    progress_.time.ideal = std::max(progress_.time.ideal, time.ideal);
  }
}

void Worker::continue_at(const DataPosition& position) {
  position_.resume(progress_.step, position, [this](std::uint64_t epoch, std::span<const data::EpochPart> earlier) {
    return loader_.continue_epoch(epoch, earlier);
  });
  set_length();
}

void Worker::tell_resize(const DataPosition& position, int workers) {
  const std::uint64_t step = progress_.step;
  const bool is_over = position_.epoch(step) > position.epoch;
  const std::string rest = is_over ? "the rest, which fills no step, is left out" : "the others follow";
  warn(fmt::format(
      "{} workers go on after step {} of {} workers: {} samples of epoch {} are done, {}; a step takes {} "
      "samples instead of {}; schedules in epochs count step {} as step {}",
      communicator_.size(), step, workers, position.samples(), position.epoch + 1, rest, position_.samples_per_step(),
      position.parts.back().samples_per_step, step, position_.scheduled(step)));
  std::vector<std::string> rules = exchange_->describe_resharding();
  if (network_.statistics().size() > 0) rules.emplace_back("batch-norm statistics start from their mean");
  if (network_.carries_state()) rules.emplace_back("the state carried from batch to batch starts from zeros");
  if (selects_by_cost(config_)) rules.emplace_back("the cost model decides anew");
  if (rules.empty()) rules.emplace_back("nothing is kept by workers");
  log::info(communicator_.rank(), "state of {} workers for {}: {}", workers, communicator_.size(),
            fmt::join(rules, "; "));
}

void Worker::read_initial_weights() {
  if (config_.train.init_from.empty()) return;
  for (const std::string& warning : import_weights(config_.train.init_from, network_))
    warn("train.init_from: " + warning);
  log::info(communicator_.rank(), "starts from the weights in {}", config_.train.init_from);
}

void Worker::share_initial_weights() {
  if (config_.train.init_from.empty()) return;
  const ClockPause pause(communicator_.clock());
  for (const View<float>& values : {network_.arena().values(), network_.statistics()}) {
    if (values.empty()) continue;
    kernels::HostMirror<float> mirror;
    const std::span<const float> mine = mirror.of(values);
    Buffer<float> copy(mine.size());
    std::ranges::copy(mine, copy.host().begin());
    communicator_.broadcast(0, comm::Communicator::as_writable_bytes(copy.host()));
    if (communicator_.rank() != 0) kernels::transfer(View<const float>(copy.view()), values);
  }
}

std::uint64_t load_model(const std::filesystem::path& checkpoint, const Config& config, layers::Network& network) {
  const Archive model = CheckpointStore::read_model(checkpoint);
  require_same_model(model, checkpoint, config, network);
  read_array(model, kParameters, network.arena().values());
  read_array(model, kStatistics, network.statistics());
  return load_progress(model).step;
}

}  // namespace dragonn::trainer

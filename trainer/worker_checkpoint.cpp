// SPDX-License-Identifier: MIT
/// Worker's save and resume: the content of a checkpoint.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agreement.h"
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
constexpr const char* kSelection = "tensor_selection";
constexpr const char* kDenseIsFaster = "progress/dense_is_faster";

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
  archive.put("progress/step_seconds", progress.step_seconds);
  archive.put("progress/density_sum", progress.density_sum);
  archive.put("progress/warnings", static_cast<std::uint64_t>(progress.warnings.size()));
  for (std::size_t i = 0; i < progress.warnings.size(); ++i) {
    archive.put_text(fmt::format("progress/warning{}", i), progress.warnings[i]);
  }
  archive.put(kDenseIsFaster, static_cast<std::uint64_t>(progress.dense_is_faster ? 1 : 0));
  save_eval(archive, "progress/last/", progress.last);
  save_eval(archive, "progress/best/", progress.best);
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
    exchange_->save(rank);
    rank.put_array<float>(kStatistics, statistics.of(network_.statistics()));
    rank.put("bytes_sent", progress_.bytes_sent);
    save_time(rank, "seconds", progress_.time);
    rank.put_array<float>(kCarriedState, state.of(network_.state(layers::Mode::kTrain)));
    if (model == nullptr) return;
    model->put_text(kConfig, to_toml(config_));
    model->put_text(kConfigHash, config_hash(config_));
    model->put_array<float>(kParameters, parameters());
    model->put_array<float>(kStatistics, averaged.host());
    optimizer_->save(*model, "optimizer/");
    schedule_->save(*model, "schedule/");
    save_progress(*model, progress_);
    if (selection_) model->put_text(kSelection, to_json(*selection_));
  });
  if (communicator_.rank() != 0) return;
  const bool keep_best = config_.checkpoint.keep_best && progress_.best.has_value();
  checkpoints_.prune(config_.checkpoint.keep, keep_best ? std::optional(progress_.best->step) : std::nullopt);
}

void Worker::resume(const std::filesystem::path& checkpoint) {
  comm::all_ranks_or_none(communicator_, [&] {
    const CheckpointFiles files = CheckpointStore::read(checkpoint, communicator_.rank(), communicator_.size());
    require_same_model(files.model, checkpoint, config_, network_);
    read_array(files.model, kParameters, network_.arena().values());
    read_array(files.rank, kStatistics, network_.statistics());
    optimizer_->load(files.model, "optimizer/");
    schedule_->load(files.model, "schedule/");
    exchange_->load(files.rank);
    progress_ = load_progress(files.model);
    progress_.bytes_sent = files.rank.get<double>("bytes_sent");
    const std::vector<float> state = files.rank.get_vector<float>(kCarriedState);
    if (!state.empty()) {
      network_.set_state(layers::Mode::kTrain, static_cast<std::size_t>(config_.train.batch_size),
                         View<const float>(std::span<const float>(state)));
    }
    if (files.model.contains(kSelection)) {
      selection_ = parse_selection(files.model.get_text(kSelection), checkpoint.string());
    }
    progress_.time = load_time(files.rank, "seconds");
    begin_clock_at(progress_.time);
    if (const std::string changes = changes_since(files.model, config_); !changes.empty()) {
      warn(fmt::format("resumed after step {}; {}", progress_.step, changes));
    }
  });
  log::info(communicator_.rank(), "resumes from {} after step {}", checkpoint.string(), progress_.step);
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

// SPDX-License-Identifier: MIT
#include "bench/training_step.h"

#include <filesystem>
#include <numeric>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/npy.h"
#include "core/rng.h"
#include "kernels/devices.h"
#include "kernels/gradient/optimizer_update.h"
#include "kernels/nn/losses.h"
#include "layers/graph.h"
#include "trainer/config/toml_config.h"
#include "trainer/weights/model_weights.h"

namespace dragonn::bench {
namespace {

constexpr float kLearningRate = 1e-3f;

const layers::ModelEntry& entry_of(const StepSettings& settings) {
  return Registry<layers::ModelEntry>::instance().at(settings.model);
}

Settings model_settings(const StepSettings& settings) {
  trainer::RawConfig overrides;
  for (const std::string& assignment : settings.model_settings) trainer::apply_override(overrides, assignment);
  Settings model(entry_of(settings).settings);
  for (const trainer::RawKey& key : overrides.keys) model.set(key.path(), key.value);
  return model;
}

layers::Network make_network(const StepSettings& settings) {
  const layers::ModelContext context{settings.sample, settings.classes};
  return layers::Network(entry_of(settings).make(model_settings(settings), context), 0.0, settings.device,
                         settings.execution);
}

/// Returns how many labels the samples of a batch have together.
std::size_t label_count(const StepSettings& settings, TargetKind kind) {
  return settings.batch * (kind == TargetKind::kClassPerStep ? static_cast<std::size_t>(settings.sample[0]) : 1);
}

/// Returns how many offsets say where the labels of each sample begin and end, one label a sample; 0 for other targets.
std::size_t offset_count(const StepSettings& settings, TargetKind kind) {
  return kind == TargetKind::kClassSet || kind == TargetKind::kClassSequence ? settings.batch + 1 : 0;
}

nlohmann::ordered_json describe_layers(const StepSettings& settings, const layers::Network& network) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array(), parameters = nlohmann::ordered_json::object();
  for (const layers::LayerSummary& layer : network.summary())
    layers.push_back({{"name", layer.name}, {"kind", layer.kind}, {"output", layer.output.extents()}});
  for (const Parameter& parameter : network.arena().parameters())
    parameters[parameter.name] = parameter.shape.extents();
  nlohmann::ordered_json result = describe(settings);
  result.update({{"layers", layers}, {"parameters", parameters}});
  return result;
}

}  // namespace

StepSettings default_step(const std::string& model) {
  struct Samples {
    Shape shape;
    int classes;
  };
  static const Samples kSamples[] = {{{32, 32, 3}, 10}, {{4096}, 30938}, {{35}, 10000}, {{200, 161}, 29}};  // by kind
  StepSettings settings{.model = model};
  const Samples& samples = kSamples[static_cast<std::size_t>(entry_of(settings).inputs)];
  settings.sample = samples.shape;
  settings.classes = samples.classes;
  return settings;
}

nlohmann::ordered_json describe(const StepSettings& settings) {
  const Settings model = model_settings(settings);
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const SettingSpec& spec : model.specs())
    std::visit([&](const auto& value) { values[spec.name] = value; }, model.value(spec.name));
  return {{"model", settings.model},
          {"settings", values},
          {"sample", settings.sample.extents()},
          {"classes", settings.classes},
          {"batch", settings.batch}};
}

TrainingStep::TrainingStep(const StepSettings& settings)
    : settings_(settings),
      network_(make_network(settings)),
      inputs_(settings.batch * settings.sample.size(), host_memory_for(settings.device)),
      labels_(label_count(settings, network_.target_kind()), host_memory_for(settings.device)),
      offsets_(offset_count(settings, network_.target_kind()), host_memory_for(settings.device)) {
  Rng stream(settings.seed, "benchmark batch");
  const auto classes = static_cast<std::uint64_t>(settings.classes);
  const bool tokens = entry_of(settings).inputs == layers::InputKind::kTokens;
  for (float& value : inputs_.host()) value = tokens ? static_cast<float>(stream.below(classes)) : stream.normal();
  const TargetKind kind = network_.target_kind();
  const std::uint64_t min = kind == TargetKind::kClassSequence ? kernels::kCtcBlank + 1 : 0;
  for (std::int32_t& label : labels_.host()) label = static_cast<std::int32_t>(min + stream.below(classes - min));
  std::iota(offsets_.host().begin(), offsets_.host().end(), 0);
  network_.initialize(settings.seed);
  if (!settings.weights.empty()) {
    for (const std::string& warning : trainer::import_weights(settings.weights, network_, entry_of(settings).weights))
      log::warning(0, "{}", warning);
  }
}

double TrainingStep::forward() {
  const layers::LossResult result =
      network_.forward({inputs_.view(), targets(), settings_.batch}, layers::Mode::kTrain);
  return result.loss_sum / static_cast<double>(result.count);
}

void TrainingStep::evaluate() {
  network_.forward({inputs_.view(), targets(), settings_.batch}, layers::Mode::kEvaluate);
}

double TrainingStep::compute_gradients() {
  const double loss = forward();
  backward();
  return loss;
}

void TrainingStep::update() {
  ParameterArena& arena = network_.arena();
  kernels::sgd_update({.learning_rate = kLearningRate}, kernels::GradientView(arena.gradients()), {}, arena.values());
}

void dump_step(const StepSettings& settings, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw SystemError(fmt::format("cannot make the folder {}: {}", folder, failure.message()));
  TrainingStep step(settings);
  layers::Network& network = step.network();
  const auto batch = static_cast<std::int64_t>(settings.batch);
  const fs::path path(folder);
  kernels::HostMirror<float> mirror;
  step.evaluate();
  write_npy<float>(path / "evaluation_logits.npy", network.logits_shape(), mirror.of(network.logits()));
  const auto loss = static_cast<float>(step.compute_gradients());
  write_npy<float>(path / "inputs.npy", layers::batched(settings.sample, batch), step.inputs());
  write_npy<std::int32_t>(path / "labels.npy", {static_cast<std::int64_t>(step.labels().size())}, step.labels());
  write_npy<float>(path / "loss.npy", {}, std::span(&loss, 1));
  write_npy<float>(path / "logits.npy", network.logits_shape(), mirror.of(network.logits()));
  ParameterArena& arena = network.arena();
  for (ParameterId id = 0; id < arena.parameters().size(); ++id) {
    const Parameter& parameter = arena[id];
    write_npy<float>(path / ("parameter." + parameter.name + ".npy"), parameter.shape, mirror.of(arena.value(id)));
    write_npy<float>(path / ("gradient." + parameter.name + ".npy"), parameter.shape, mirror.of(arena.gradient(id)));
  }
  write_file_atomically(path / "model.json", describe_layers(settings, network).dump(2) + "\n");
}

}  // namespace dragonn::bench

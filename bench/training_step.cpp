// SPDX-License-Identifier: MIT
#include "bench/training_step.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/npy.h"
#include "core/rng.h"
#include "kernels/optimizer_update.h"
#include "layers/graph.h"

namespace dragonn::bench {
namespace {

constexpr float kLearningRate = 1e-3f;

layers::Network make_network(const StepSettings& settings) {
  const auto& entry = Registry<layers::ModelEntry>::instance().at(settings.model);
  return layers::Network(entry.make(Settings(entry.settings), {settings.image, settings.classes}), 0.0);
}

nlohmann::ordered_json describe(const StepSettings& settings, const layers::Network& network) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array(), parameters = nlohmann::ordered_json::object();
  for (const layers::LayerSummary& layer : network.summary())
    layers.push_back({{"name", layer.name}, {"kind", layer.kind}, {"output", layer.output.extents()}});
  for (const Parameter& parameter : network.arena().parameters())
    parameters[parameter.name] = parameter.shape.extents();
  return {{"model", settings.model},
          {"batch", settings.batch},
          {"classes", settings.classes},
          {"layers", layers},
          {"parameters", parameters}};
}

}  // namespace

TrainingStep::TrainingStep(const StepSettings& settings)
    : settings_(settings),
      network_(make_network(settings)),
      inputs_(settings.batch * settings.image.size()),
      labels_(settings.batch) {
  Rng stream(settings.seed, "benchmark batch");
  for (float& value : inputs_) value = stream.normal();
  for (std::int32_t& label : labels_)
    label = static_cast<std::int32_t>(stream.below(static_cast<std::uint64_t>(settings.classes)));
  network_.initialize(settings.seed);
}

double TrainingStep::compute_gradients() {
  const layers::LossResult result = network_.forward(View<const float>(inputs_), View<const std::int32_t>(labels_),
                                                     settings_.batch, layers::Mode::kTrain);
  network_.backward();
  return result.loss_sum / static_cast<double>(result.count);
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
  const auto loss = static_cast<float>(step.compute_gradients());
  layers::Network& network = step.network();
  const auto batch = static_cast<std::int64_t>(settings.batch);
  const fs::path path(folder);
  write_npy<float>(path / "inputs.npy", layers::batched(settings.image, batch), step.inputs());
  write_npy<std::int32_t>(path / "labels.npy", {batch}, step.labels());
  write_npy<float>(path / "loss.npy", {}, std::span(&loss, 1));
  write_npy<float>(path / "logits.npy", {batch, network.classes()}, network.logits().host());
  ParameterArena& arena = network.arena();
  for (ParameterId id = 0; id < arena.parameters().size(); ++id) {
    const Parameter& parameter = arena[id];
    write_npy<float>(path / ("parameter." + parameter.name + ".npy"), parameter.shape, arena.value(id).host());
    write_npy<float>(path / ("gradient." + parameter.name + ".npy"), parameter.shape, arena.gradient(id).host());
  }
  write_file_atomically(path / "model.json", describe(settings, network).dump(2) + "\n");
}

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// TrainingStep: a model with a random batch, ready to run training steps on it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/buffer.h"
#include "layers/network.h"

namespace dragonn::bench {

struct StepSettings {
  std::string model = "resnet20";
  std::vector<std::string> model_settings = {};  ///< "key=value", for the model's table
  std::size_t batch = 32;
  int classes = 10;
  Shape sample{32, 32, 3};
  std::uint64_t seed = 1;
  std::string weights = {};  ///< safetensors file that the parameters start from; empty: drawn by the seed
  Device device = {};
  layers::Execution execution = {};
};

/// Returns a model's default measurement: samples and classes of its kind of input.
StepSettings default_step(const std::string& model);

/// Describes a model so that another program can build it (scripts/pytorch_models.py): its name with all settings, the
/// shape of a sample, the classes and the batch.
nlohmann::ordered_json describe(const StepSettings& settings);

/// Runs training steps on one random batch. Inputs are standard normal (tokens uniform), labels uniform (those of CTC
/// from 1 on: 0 is its blank): times do not depend on them.
class TrainingStep {
 public:
  /// @throws ConfigError for an unknown model, or one that does not fit the sample or the weights.
  explicit TrainingStep(const StepSettings& settings);

  /// Runs forward and loss. Returns the mean loss.
  double forward();
  /// Runs forward as in an evaluation; the network then has its logits.
  void evaluate();
  void backward() { network_.backward(); }
  /// Runs both. Returns the mean loss.
  double compute_gradients();
  /// Updates the whole arena by plain gradient descent.
  void update();

  layers::Network& network() { return network_; }
  std::span<const float> inputs() const { return inputs_.host(); }
  std::span<const std::int32_t> labels() const { return labels_.host(); }
  Targets targets() const { return {labels_.view(), offsets_.view()}; }

 private:
  StepSettings settings_;
  layers::Network network_;
  Buffer<float> inputs_;  // page-locked for a GPU, as a loader's batches
  Buffer<std::int32_t> labels_, offsets_;
};

/// Writes one step into `folder`, made if needed: inputs.npy, labels.npy, evaluation_logits.npy (of the same batch, by
/// the running moments before the step), loss.npy, logits.npy, for every parameter parameter.NAME.npy and
/// gradient.NAME.npy (of the mean loss, before any update), and model.json (from describe(), with layers and parameter
/// shapes). Layouts: images NHWC, convolution weights HWIO, linear weights [outputs, inputs] with inputs flattened in
/// NHWC order. @throws SystemError if a file cannot be written.
void dump_step(const StepSettings& settings, const std::string& folder);

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// Batch norm and layer norm.
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/layer_norm.h"
#include "layers/layer.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

/// The last axis.
std::int64_t channels_of(const Shape& shape) {
  return shape[shape.rank() - 1];
}

std::vector<ParameterSpec> scale_and_shift(const Shape& input) {
  const Shape channels{channels_of(input)};
  return {{"weight", channels, ParameterRole::kNormalization, Initializer::constant(1), /*spans_features=*/true},
          {"bias", channels, ParameterRole::kNormalization, Initializer::constant(0), /*spans_features=*/true}};
}

class BatchNorm final : public Layer {
 public:
  explicit BatchNorm(const BatchNormSettings& settings) : settings_(settings) {}

  std::string kind() const override {
    return std::string("batch norm") + (settings_.residual ? " + residual" : "") + (settings_.relu ? " + ReLU" : "");
  }
  LayerTraits traits() const override {
    return {.backward_reads_inputs = true,
            .backward_reads_output = settings_.residual && settings_.relu,
            .backward_in_place = true,
            .sums_output_gradients = true,
            .takes_bf16 = true};
  }

  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, settings_.residual ? 2 : 1);
    if (input.rank() < 2)
      throw ShapeError(fmt::format("{} takes [batch, ..., channels], not {}", kind(), input.to_string()));
    if (inputs.back() != input)
      throw ShapeError(
          fmt::format("{} of {} with a residual of {}", kind(), input.to_string(), inputs.back().to_string()));
    return input;
  }

  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    return scale_and_shift(inputs[0]);
  }

  std::vector<StatisticsSpec> statistics(std::span<const Shape> inputs) const override {
    const auto channels = static_cast<std::size_t>(channels_of(inputs[0]));
    return {{channels, 0.0f, "running_mean", OnResize::kReshard}, {channels, 1.0f, "running_var", OnResize::kReshard}};
  }

  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const auto channels = static_cast<std::size_t>(channels_of(context.output));
    return kernels::make_batch_norm_plan(
        context.device, {context.output.size() / channels, channels, settings_.relu, settings_.residual,
                         settings_.epsilon, settings_.momentum, context.mode == Mode::kTrain, context.type});
  }

 private:
  BatchNormSettings settings_;
};

class LayerNorm final : public Layer {
 public:
  std::string kind() const override { return "layer norm"; }
  LayerTraits traits() const override { return {.backward_reads_inputs = true, .takes_bf16 = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, 1);
    if (input.rank() < 2)
      throw ShapeError(fmt::format("{} takes [batch, ..., features], not {}", kind(), input.to_string()));
    return input;
  }
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    return scale_and_shift(inputs[0]);
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const std::int64_t features = channels_of(context.output);
    const auto size = static_cast<std::int64_t>(context.output.size());
    return kernels::make_layer_norm_plan(context.device, {.rows = size / features,
                                                          .columns = features,
                                                          .training = context.mode == Mode::kTrain,
                                                          .input_gradient = context.input_gradients[0]});
  }
};

}  // namespace

std::unique_ptr<Layer> batch_norm(const BatchNormSettings& settings) {
  return std::make_unique<BatchNorm>(settings);
}

std::unique_ptr<Layer> layer_norm() {
  return std::make_unique<LayerNorm>();
}

}  // namespace dragonn::layers

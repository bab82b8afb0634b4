// SPDX-License-Identifier: MIT
#include "kernels/nn/batch_norm.h"

#include <utility>

#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class BatchNormLayerPlan final : public LayerPlan {
 public:
  BatchNormLayerPlan(std::unique_ptr<kernels::BatchNormPlan> plan, Mode mode, bool residual)
      : plan_(std::move(plan)), mode_(mode), residual_(residual) {}

  kernels::PlanMemory memory() const override { return plan_->memory(); }

  void forward(const ForwardPass& pass) override {
    const kernels::BatchNormForward arguments{pass.inputs[0],     residual_ ? pass.inputs[1] : View<const float>(),
                                              pass.parameters[0], pass.parameters[1],
                                              pass.statistics[0], pass.statistics[1],
                                              pass.output,        pass.saved,
                                              pass.scratch};
    mode_ == Mode::kTrain ? plan_->forward_train(arguments) : plan_->forward_evaluate(arguments);
  }

  void backward(const BackwardPass& pass) override {
    plan_->backward({pass.inputs[0], pass.output, pass.parameters[0], pass.parameters[1], pass.output_gradients,
                     pass.input_gradients[0], residual_ ? pass.input_gradients[1] : View<float>(),
                     pass.parameter_gradients[0], pass.parameter_gradients[1], pass.saved, pass.scratch});
  }

 private:
  std::unique_ptr<kernels::BatchNormPlan> plan_;
  Mode mode_;
  bool residual_;
};

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
            .sums_output_gradients = true};
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
    const Shape channels{channels_of(inputs[0])};
    return {{"weight", channels, ParameterRole::kNormalization, Initializer::constant(1)},
            {"bias", channels, ParameterRole::kNormalization, Initializer::constant(0)}};
  }

  std::vector<StatisticsSpec> statistics(std::span<const Shape> inputs) const override {
    const auto channels = static_cast<std::size_t>(channels_of(inputs[0]));
    return {{channels, 0.0f}, {channels, 1.0f}};
  }

  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const auto channels = static_cast<std::size_t>(channels_of(context.output));
    return std::make_unique<BatchNormLayerPlan>(
        kernels::make_batch_norm_plan(context.device, {context.output.size() / channels, channels, settings_.relu,
                                                       settings_.residual, settings_.epsilon, settings_.momentum}),
        context.mode, settings_.residual);
  }

 private:
  static std::int64_t channels_of(const Shape& shape) { return shape[shape.rank() - 1]; }

  BatchNormSettings settings_;
};

}  // namespace

std::unique_ptr<Layer> batch_norm(const BatchNormSettings& settings) {
  return std::make_unique<BatchNorm>(settings);
}

}  // namespace dragonn::layers

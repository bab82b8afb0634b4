// SPDX-License-Identifier: MIT
#include "layers/weighted_layer.h"

#include <utility>

namespace dragonn::layers {
namespace {

Initializer weight_initializer(const WeightedParameters& parameters) {
  if (parameters.initial_bound > 0) return Initializer::uniform(parameters.initial_bound);
  switch (parameters.weight_init) {
    case WeightInit::kHeFanIn:
      return Initializer::he_normal(parameters.fan_in);
    case WeightInit::kHeFanOut:
      return Initializer::he_normal(parameters.fan_out);
    case WeightInit::kXavierUniform:
      return Initializer::xavier_uniform(parameters.fan_in, parameters.fan_out);
    case WeightInit::kFanInUniform:
      return Initializer::fan_in_uniform(parameters.fan_in);
  }
  throw Error("unknown weight initialization");
}

class WeightedLayerPlan final : public LayerPlan {
 public:
  explicit WeightedLayerPlan(std::unique_ptr<kernels::WeightedPlan> plan) : plan_(std::move(plan)) {}

  kernels::PlanMemory memory() const override { return plan_->memory(); }

  void forward(const ForwardPass& pass) override {
    plan_->forward({pass.inputs[0], pass.parameters[0], bias(pass.parameters), pass.output, pass.saved, pass.scratch});
  }

  void backward(const BackwardPass& pass) override {
    plan_->backward({pass.inputs[0], pass.parameters[0], pass.output_gradients[0], pass.input_gradients[0],
                     pass.parameter_gradients[0], bias(pass.parameter_gradients), pass.saved, pass.scratch});
  }

 private:
  template <class T>
  static View<T> bias(std::span<const View<T>> parameters) {
    return parameters.size() > 1 ? parameters[1] : View<T>();
  }

  std::unique_ptr<kernels::WeightedPlan> plan_;
};

}  // namespace

std::vector<ParameterSpec> weighted_parameters(const WeightedParameters& parameters) {
  std::vector<ParameterSpec> specs{
      {"weight", parameters.weight, ParameterRole::kWeight, weight_initializer(parameters)}};
  if (parameters.bias)
    specs.push_back({"bias",
                     {parameters.outputs},
                     ParameterRole::kBias,
                     parameters.bias_init == BiasInit::kZero ? Initializer::constant(0)
                                                             : Initializer::fan_in_uniform(parameters.fan_in)});
  return specs;
}

std::unique_ptr<LayerPlan> weighted_layer_plan(std::unique_ptr<kernels::WeightedPlan> plan) {
  return std::make_unique<WeightedLayerPlan>(std::move(plan));
}

}  // namespace dragonn::layers

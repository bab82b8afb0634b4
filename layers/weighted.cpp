// SPDX-License-Identifier: MIT
/// Layers with weights: linear maps and convolutions.
#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "kernels/nn/convolution.h"
#include "kernels/nn/linear.h"
#include "kernels/nn/plan.h"
#include "layers/layer.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

/// The parameters of an operation with weights.
struct WeightedParameters {
  Shape weight;
  std::int64_t outputs = 1;
  std::int64_t fan_in = 1;
  std::int64_t fan_out = 1;
  bool bias = true;
  WeightInit weight_init = WeightInit::kFanInUniform;
  BiasInit bias_init = BiasInit::kZero;
  double initial_bound = 0;     ///< if positive: weights start uniform in +-bound
  bool spans_features = false;  ///< ParameterSpec::spans_features of the weight
};

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

std::vector<ParameterSpec> weighted_parameters(const WeightedParameters& parameters) {
  std::vector<ParameterSpec> specs{
      {"weight", parameters.weight, ParameterRole::kWeight, weight_initializer(parameters), parameters.spans_features}};
  if (parameters.bias)
    specs.push_back({"bias",
                     {parameters.outputs},
                     ParameterRole::kBias,
                     parameters.bias_init == BiasInit::kZero ? Initializer::constant(0)
                                                             : Initializer::fan_in_uniform(parameters.fan_in)});
  return specs;
}

class Linear final : public Layer {
 public:
  explicit Linear(const LinearSettings& settings) : settings_(settings) {}

  std::string kind() const override { return "linear"; }
  LayerTraits traits() const override { return {.backward_reads_inputs = true, .takes_bf16 = true}; }

  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, 1);
    if (input.rank() == 3) return {input[0], input[1], settings_.outputs};
    return {single_input(kind(), inputs, 2)[0], settings_.outputs};
  }

  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    const std::int64_t features = features_of(inputs[0]);
    return weighted_parameters({{settings_.outputs, features},
                                settings_.outputs,
                                features,
                                settings_.outputs,
                                settings_.bias,
                                settings_.weight_init,
                                settings_.bias_init,
                                settings_.initial_bound,
                                /*spans_features=*/true});
  }

  double forward_flops(std::span<const Shape> inputs) const override {
    return 2.0 * static_cast<double>(inputs[0].size()) * static_cast<double>(settings_.outputs);
  }

  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    return kernels::make_linear_plan(
        context.device,
        {static_cast<std::int64_t>(context.output.size()) / settings_.outputs, features_of(context.inputs[0]),
         settings_.outputs, settings_.bias, context.mode == Mode::kTrain, context.input_gradients[0], context.type});
  }

 private:
  static std::int64_t features_of(const Shape& input) { return input[input.rank() - 1]; }

  LinearSettings settings_;
};

class Convolution final : public Layer {
 public:
  explicit Convolution(const ConvolutionSettings& settings) : settings_(settings) {}

  std::string kind() const override {
    const auto& [vertical, horizontal] = std::tie(settings_.vertical, settings_.horizontal);
    std::string text = fmt::format("convolution {}x{}", vertical.kernel, horizontal.kernel);
    if (vertical.stride != horizontal.stride)
      text += fmt::format("/{}x{}", vertical.stride, horizontal.stride);
    else if (vertical.stride != 1)
      text += fmt::format("/{}", vertical.stride);
    if (settings_.groups != 1) text += fmt::format(", {} groups", settings_.groups);
    return text;
  }
  LayerTraits traits() const override { return {.backward_reads_inputs = true, .takes_bf16 = true}; }

  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = single_input(kind(), inputs, 4);
    const Shape output{input[0], std::max<std::int64_t>(0, settings_.vertical.outputs(input[1])),
                       std::max<std::int64_t>(0, settings_.horizontal.outputs(input[2])), settings_.outputs};
    if (input[0] > 0 && output.size() == 0)
      throw ShapeError(fmt::format("{} does not fit an image of {}", kind(), input.to_string()));
    if (input[3] % settings_.groups != 0 || settings_.outputs % settings_.groups != 0)
      throw ShapeError(fmt::format("{} from {} to {} channels: both must be multiples of the groups", kind(), input[3],
                                   settings_.outputs));
    return output;
  }

  std::int64_t output_steps(std::int64_t steps) const override {
    return std::max<std::int64_t>(0, settings_.vertical.outputs(steps));
  }

  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    const std::int64_t window = settings_.vertical.kernel * settings_.horizontal.kernel;
    const std::int64_t group_inputs = inputs[0][3] / settings_.groups;
    return weighted_parameters(
        {{settings_.vertical.kernel, settings_.horizontal.kernel, group_inputs, settings_.outputs},
         settings_.outputs,
         window * group_inputs,
         window * settings_.outputs / settings_.groups,
         settings_.bias,
         settings_.weight_init,
         settings_.bias_init});
  }

  double forward_flops(std::span<const Shape> inputs) const override {
    const std::int64_t products =
        settings_.vertical.kernel * settings_.horizontal.kernel * inputs[0][3] / settings_.groups;
    return 2.0 * static_cast<double>(output_shape(inputs).size()) * static_cast<double>(products);
  }

  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const Shape& input = context.inputs[0];
    return kernels::make_convolution_plan(
        context.device,
        {input[0], input[1], input[2], input[3], settings_.outputs, settings_.vertical, settings_.horizontal,
         settings_.groups, settings_.bias, context.mode == Mode::kTrain, context.input_gradients[0], context.type});
  }

 private:
  ConvolutionSettings settings_;
};

}  // namespace

std::unique_ptr<Layer> linear(const LinearSettings& settings) {
  return std::make_unique<Linear>(settings);
}

ConvolutionSettings square_convolution(std::int64_t outputs, std::int64_t kernel, std::int64_t stride,
                                       std::int64_t padding) {
  ConvolutionSettings settings;
  settings.outputs = outputs;
  settings.vertical = settings.horizontal = {kernel, stride, padding};
  return settings;
}

std::unique_ptr<Layer> convolution(const ConvolutionSettings& settings) {
  return std::make_unique<Convolution>(settings);
}

}  // namespace dragonn::layers

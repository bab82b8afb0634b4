// SPDX-License-Identifier: MIT
/// Layers with weights: linear maps and convolutions.
#include <algorithm>

#include <fmt/format.h>

#include "kernels/nn/convolution.h"
#include "kernels/nn/matrix_product.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

Initializer weight_initializer(const WeightDistribution& init, std::int64_t fan_in, std::int64_t fan_out) {
  if (const auto* given = std::get_if<Initializer>(&init)) return *given;
  switch (std::get<WeightInit>(init)) {
    case WeightInit::kHeFanIn:
      return Initializer::he_normal(fan_in);
    case WeightInit::kHeFanOut:
      return Initializer::he_normal(fan_out);
    case WeightInit::kXavierUniform:
      return Initializer::xavier_uniform(fan_in, fan_out);
    case WeightInit::kFanInUniform:
      return Initializer::fan_in_uniform(fan_in);
  }
  throw Error("unknown weight initialization");
}

/// Returns the parameters of a layer with these settings: weights, and perhaps a bias.
std::vector<ParameterSpec> weighted_parameters(const auto& settings, const Shape& weight, std::int64_t fan_in,
                                               std::int64_t fan_out) {
  std::vector<ParameterSpec> specs{
      {"weight", weight, ParameterRole::kWeight, weight_initializer(settings.weight_init, fan_in, fan_out)}};
  if (settings.bias)
    specs.push_back(
        {"bias",
         {settings.outputs},
         ParameterRole::kBias,
         settings.bias_init == BiasInit::kZero ? Initializer::constant(0) : Initializer::fan_in_uniform(fan_in)});
  return specs;
}

}  // namespace

Layer linear(const LinearSettings& settings) {
  const auto features_of = [](const Shape& input) { return input[input.rank() - 1]; };
  return {.kind = "linear",
          .traits = {.backward_reads_inputs = true,
                     .takes_bf16 = true,
                     .works_by_rows = true,
                     .adds_parameter_gradients = true,
                     .is_stepwise = true},
          .output_shape = [=](Shapes inputs) -> Shape {
            const Shape& input = first_input("linear", inputs, 1);
            if (input.rank() == 3) return {input[0], input[1], settings.outputs};
            return {single_input("linear", inputs, 2)[0], settings.outputs};
          },
          .parameters = [=](Shapes inputs) -> std::vector<ParameterSpec> {
            const std::int64_t features = features_of(inputs[0]);
            auto specs = weighted_parameters(settings, {settings.outputs, features}, features, settings.outputs);
            specs[0].role = ParameterRole::kHiddenMatrix;
            specs[0].spans_features = true;
            specs[0].padding = settings.padding;
            return specs;
          },
          .forward_flops = [=](Shapes inputs) -> double {
            return 2.0 * static_cast<double>(inputs[0].size()) * static_cast<double>(settings.outputs);
          },
          .plan = [=](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            return kernels::make_linear_plan(
                context.device, {static_cast<std::int64_t>(context.output.size()) / settings.outputs,
                                 features_of(context.inputs[0]), settings.outputs, settings.bias,
                                 context.mode == Mode::kTrain, context.input_gradients[0], context.type, context.math});
          }};
}

ConvolutionSettings square_convolution(std::int64_t outputs, std::int64_t kernel, std::int64_t stride,
                                       std::int64_t padding) {
  const kernels::Window window{kernel, stride, padding};
  return {.outputs = outputs, .vertical = window, .horizontal = window};
}

Layer convolution(const ConvolutionSettings& settings) {
  const kernels::Window vertical = settings.vertical, horizontal = settings.horizontal;
  const std::int64_t window = vertical.kernel * horizontal.kernel;
  std::string kind = fmt::format("convolution {}x{}", vertical.kernel, horizontal.kernel);
  if (vertical.stride != horizontal.stride)
    kind += fmt::format("/{}x{}", vertical.stride, horizontal.stride);
  else if (vertical.stride != 1)
    kind += fmt::format("/{}", vertical.stride);
  if (settings.groups != 1) kind += fmt::format(", {} groups", settings.groups);
  const auto output_shape = [=](Shapes inputs) -> Shape {
    const Shape& input = single_input(kind, inputs, 4);
    const Shape output{input[0], std::max<std::int64_t>(0, vertical.outputs(input[1])),
                       std::max<std::int64_t>(0, horizontal.outputs(input[2])), settings.outputs};
    if (input[0] > 0 && output.size() == 0)
      throw ShapeError(fmt::format("{} does not fit an image of {}", kind, input.to_string()));
    if (input[3] % settings.groups != 0 || settings.outputs % settings.groups != 0)
      throw ShapeError(fmt::format("{} from {} to {} channels: both must be multiples of the groups", kind, input[3],
                                   settings.outputs));
    return output;
  };
  return {.kind = kind,
          .traits = {.backward_reads_inputs = true, .takes_bf16 = true},
          .output_shape = output_shape,
          .parameters = [=](Shapes inputs) -> std::vector<ParameterSpec> {
            const std::int64_t group_inputs = inputs[0][3] / settings.groups;
            return weighted_parameters(settings, {vertical.kernel, horizontal.kernel, group_inputs, settings.outputs},
                                       window * group_inputs, window * settings.outputs / settings.groups);
          },
          .output_steps = [=](std::int64_t steps) { return std::max<std::int64_t>(0, vertical.outputs(steps)); },
          .forward_flops = [=](Shapes inputs) -> double {
            const std::int64_t products = window * inputs[0][3] / settings.groups;
            return 2.0 * static_cast<double>(output_shape(inputs).size()) * static_cast<double>(products);
          },
          .plan = [=](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            const Shape& input = context.inputs[0];
            return kernels::make_convolution_plan(
                context.device,
                {input[0], input[1], input[2], input[3], settings.outputs, vertical, horizontal, settings.groups,
                 settings.bias, context.mode == Mode::kTrain, context.input_gradients[0], context.type, context.math});
          }};
}

}  // namespace dragonn::layers

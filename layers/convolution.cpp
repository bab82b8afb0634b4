// SPDX-License-Identifier: MIT
#include "kernels/nn/convolution.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "layers/layers.h"
#include "layers/shape_checks.h"
#include "layers/weighted_layer.h"

namespace dragonn::layers {
namespace {

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
  LayerTraits traits() const override { return {.backward_reads_inputs = true}; }

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
    return weighted_layer_plan(kernels::make_convolution_plan(
        context.device,
        {input[0], input[1], input[2], input[3], settings_.outputs, settings_.vertical, settings_.horizontal,
         settings_.groups, settings_.bias, context.mode == Mode::kTrain, context.input_gradients[0]}));
  }

 private:
  ConvolutionSettings settings_;
};

}  // namespace

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

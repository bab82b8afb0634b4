// SPDX-License-Identifier: MIT
/// Batch norm and layer norm.
#include "kernels/nn/normalization.h"

#include <fmt/format.h>

#include "layers/layers.h"

namespace dragonn::layers {
namespace {

/// The last axis.
std::int64_t channels_of(const Shape& shape) {
  return shape[shape.rank() - 1];
}

std::vector<ParameterSpec> scale_and_shift(Shapes inputs) {
  const Shape channels{channels_of(inputs[0])};
  return {{"weight", channels, ParameterRole::kNormalization, Initializer::constant(1), /*spans_features=*/true},
          {"bias", channels, ParameterRole::kNormalization, Initializer::constant(0), /*spans_features=*/true}};
}

}  // namespace

Layer batch_norm(const BatchNormSettings& settings) {
  const std::string kind =
      std::string("batch norm") + (settings.residual ? " + residual" : "") + (settings.relu ? " + ReLU" : "");
  return {.kind = kind,
          .traits = {.backward_reads_inputs = true,
                     .backward_reads_output = settings.residual && settings.relu,
                     .backward_in_place = true,
                     .sums_output_gradients = true,
                     .takes_bf16 = true},
          .output_shape = [=](Shapes inputs) -> Shape {
            const Shape& input = first_input(kind, inputs, settings.residual ? 2 : 1);
            if (input.rank() < 2)
              throw ShapeError(fmt::format("{} takes [batch, ..., channels], not {}", kind, input.to_string()));
            if (inputs.back() != input)
              throw ShapeError(
                  fmt::format("{} of {} with a residual of {}", kind, input.to_string(), inputs.back().to_string()));
            return input;
          },
          .parameters = scale_and_shift,
          .statistics = [](Shapes inputs) -> std::vector<StatisticsSpec> {
            const auto channels = static_cast<std::size_t>(channels_of(inputs[0]));
            return {{channels, 0.0f, "running_mean", OnResize::kReshard},
                    {channels, 1.0f, "running_var", OnResize::kReshard}};
          },
          .plan = [=](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            const auto channels = static_cast<std::size_t>(channels_of(context.output));
            return kernels::make_batch_norm_plan(
                context.device, {context.output.size() / channels, channels, settings.relu, settings.residual,
                                 settings.epsilon, settings.momentum, context.mode == Mode::kTrain, context.type});
          }};
}

Layer layer_norm() {
  return {.kind = "layer norm",
          .traits = {.backward_reads_inputs = true, .takes_bf16 = true, .is_cheap = true, .is_stepwise = true},
          .output_shape = [](Shapes inputs) -> Shape {
            const Shape& input = first_input("layer norm", inputs, 1);
            if (input.rank() < 2)
              throw ShapeError(fmt::format("layer norm takes [batch, ..., features], not {}", input.to_string()));
            return input;
          },
          .parameters = scale_and_shift,
          .plan = [](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            const std::int64_t features = channels_of(context.output);
            return kernels::make_layer_norm_plan(context.device,
                                                 {.rows = static_cast<std::int64_t>(context.output.size()) / features,
                                                  .columns = features,
                                                  .training = context.mode == Mode::kTrain,
                                                  .input_gradient = context.input_gradients[0]});
          }};
}

}  // namespace dragonn::layers

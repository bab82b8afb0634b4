// SPDX-License-Identifier: MIT
/// Layers on images: pooling, the parameter-free shortcut, and layers between channels.
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "kernels/nn/channels.h"
#include "kernels/nn/pooling.h"
#include "layers/layers.h"

namespace dragonn::layers {

Layer concatenate() {
  return {.kind = "concatenate",
          .traits = {.takes_bf16 = true},
          .output_shape = [](Shapes inputs) -> Shape {
            if (inputs.empty()) throw ShapeError("concatenate takes one input at least");
            std::int64_t channels = 0;
            for (const Shape& input : inputs) {
              if (input.rank() != 4 || input[1] != inputs[0][1] || input[2] != inputs[0][2])
                throw ShapeError(fmt::format("concatenate takes images of one size, not {} and {}",
                                             inputs[0].to_string(), input.to_string()));
              channels += input[3];
            }
            return {inputs[0][0], inputs[0][1], inputs[0][2], channels};
          },
          .plan =
              [](const PlanContext& context) {
                std::vector<kernels::ChannelCopy> copies;
                const std::size_t total = extent(context.output, 3);
                std::size_t first = 0;
                for (const Shape& input : context.inputs) {
                  const std::size_t channels = extent(input, 3);
                  copies.push_back({context.output.size() / total, channels, channels, 0, total, first});
                  first += channels;
                }
                return layer_plan(
                    [copies](const ForwardPass& pass) {
                      for (std::size_t i = 0; i < copies.size(); ++i)
                        kernels::copy_channels(copies[i], pass.inputs[i], pass.output);
                    },
                    [copies](const BackwardPass& pass) {
                      for (std::size_t i = 0; i < copies.size(); ++i) {
                        if (pass.input_gradients[i].empty()) continue;
                        const kernels::ChannelCopy& of = copies[i];
                        kernels::copy_channels({of.pixels, of.channels, of.target_channels, of.target_first,
                                                of.source_channels, of.source_first},
                                               pass.output_gradients[0], pass.input_gradients[i]);
                      }
                    });
              }};
}

Layer scale_channels() {
  return {
      .kind = "scale channels",
      .traits = {.backward_reads_inputs = true, .takes_bf16 = true},
      .output_shape =
          [](Shapes inputs) {
            const Shape& input = first_input("scale channels", inputs, 2);
            if (input.rank() != 4 || inputs[1] != Shape{input[0], input[3]})
              throw ShapeError(fmt::format(
                  "scale channels takes [batch, height, width, channels] and [batch, channels], not {} and {}",
                  input.to_string(), inputs[1].to_string()));
            return input;
          },
      .plan =
          [](const PlanContext& context) {
            const Shape& input = context.inputs[0];
            const kernels::ChannelScale shape{extent(input, 0), extent(input, 1) * extent(input, 2), extent(input, 3)};
            return layer_plan(
                [shape](const ForwardPass& pass) {
                  kernels::scale_channels(shape, pass.inputs[0], pass.inputs[1], pass.output);
                },
                [shape](const BackwardPass& pass) {
                  const kernels::TypedView<const float> gradient = pass.output_gradients[0];
                  if (!pass.input_gradients[0].empty())
                    kernels::scale_channels(shape, gradient, pass.inputs[1], pass.input_gradients[0]);
                  if (!pass.input_gradients[1].empty())
                    kernels::channel_products(shape, pass.inputs[0], gradient, pass.input_gradients[1]);
                });
          }};
}

Layer local_response(const LocalResponseSettings& settings) {
  if (settings.size < 1 || settings.size % 2 == 0)
    throw ConfigError(
        fmt::format("local response normalization over {} channels: an odd number is needed", settings.size));
  const std::string kind = fmt::format("local response normalization {}", settings.size);
  return {.kind = kind,
          .traits = {.backward_reads_inputs = true, .takes_bf16 = true},
          .output_shape = [=](Shapes inputs) { return single_input(kind, inputs, 4); },
          .plan =
              [=](const PlanContext& context) {
                const Shape& input = context.inputs[0];
                return kernels::make_local_response_plan(
                    context.device, {input[0], input[1], input[2], input[3], settings.size, settings.alpha,
                                     settings.beta, settings.k, context.mode == Mode::kTrain});
              }};
}

namespace {

/// Makes a pooling of the whole image if there is no window.
Layer pooling(kernels::PoolingKind which, std::optional<kernels::Window> window) {
  const char* const name = which == kernels::PoolingKind::kMaximum ? "max pooling" : "average pooling";
  const std::string kind = window ? fmt::format("{} {}x{}/{}", name, window->kernel, window->kernel, window->stride)
                                  : fmt::format("global {}", name);
  const auto on_axis = [=](const Shape& input, std::size_t axis) {
    return window.value_or(kernels::Window{input[axis], 1, 0});
  };
  return {.kind = kind,
          .traits = {.takes_bf16 = true},
          .output_shape = [=](Shapes inputs) -> Shape {
            const Shape& input = single_input(kind, inputs, 4);
            const std::int64_t height = on_axis(input, 1).outputs(input[1]),
                               width = on_axis(input, 2).outputs(input[2]);
            if (height < 1 || width < 1)
              throw ShapeError(fmt::format("{} does not fit an image of {}", kind, input.to_string()));
            return {input[0], height, width, input[3]};
          },
          .plan =
              [=](const PlanContext& context) {
                const Shape& input = context.inputs[0];
                return kernels::make_pooling_plan(context.device,
                                                  {which, input[0], input[1], input[2], input[3], on_axis(input, 1),
                                                   on_axis(input, 2), context.mode == Mode::kTrain});
              }};
}

}  // namespace

Layer max_pooling(const kernels::Window& window) {
  return pooling(kernels::PoolingKind::kMaximum, window);
}

Layer average_pooling(const kernels::Window& window) {
  return pooling(kernels::PoolingKind::kAverage, window);
}

Layer global_average_pooling() {
  return pooling(kernels::PoolingKind::kAverage, std::nullopt);
}

Layer padded_shortcut(std::int64_t output_channels, std::int64_t stride) {
  return {
      .kind = "padded shortcut",
      .traits = {.takes_bf16 = true},
      .output_shape = [=](Shapes inputs) -> Shape {
        const Shape& input = single_input("padded shortcut", inputs, 4);
        if (output_channels < input[3])
          throw ShapeError(
              fmt::format("padded shortcut of {} to {} channels: cannot drop any", input.to_string(), output_channels));
        return {input[0], (input[1] + stride - 1) / stride, (input[2] + stride - 1) / stride, output_channels};
      },
      .plan =
          [=](const PlanContext& context) {
            const Shape& input = context.inputs[0];
            const kernels::PaddedShortcutSpec spec{extent(input, 0),          extent(input, 1),
                                                   extent(input, 2),          extent(input, 3),
                                                   extent(context.output, 3), static_cast<std::size_t>(stride)};
            return layer_plan(
                [=](const ForwardPass& pass) { kernels::padded_shortcut_forward(spec, pass.inputs[0], pass.output); },
                [=](const BackwardPass& pass) {
                  kernels::padded_shortcut_backward(spec, pass.output_gradients[0], pass.input_gradients[0]);
                });
          }};
}

}  // namespace dragonn::layers

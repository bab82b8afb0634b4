// SPDX-License-Identifier: MIT
/// Layers on sequences, beside recurrent layers: embeddings, attention, and layers between steps.
#include <fmt/format.h>

#include "kernels/nn/attention.h"
#include "kernels/nn/attention_cache.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/embedding.h"
#include "kernels/nn/sequence_rows.h"
#include "layers/layers.h"

namespace dragonn::layers {

Layer embedding(const EmbeddingSettings& settings) {
  const std::string kind = fmt::format("embedding of {}", settings.tokens);
  return {.kind = kind,
          .traits = {.backward_reads_inputs = true,
                     .takes_bf16 = true,
                     .takes_tokens = true,
                     .adds_parameter_gradients = true,
                     .is_stepwise = true},
          .output_shape = [=](Shapes inputs) -> Shape {
            const Shape& input = single_input(kind, inputs, 2);
            return {input[0], input[1], settings.width};
          },
          .parameters = [=](Shapes) -> std::vector<ParameterSpec> {
            return {{.name = "weight",
                     .shape = {settings.tokens, settings.width},
                     .initializer = settings.weight_init,
                     .padding = settings.padding}};
          },
          .plan = [width = static_cast<std::size_t>(settings.width),
                   used = static_cast<std::size_t>((settings.tokens - settings.padding) * settings.width)](
                      const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            DRAGONN_CHECK(!context.input_gradients[0], "tokens have no gradient");
            return layer_plan(
                [=](const ForwardPass& pass) {
                  kernels::embed(pass.inputs[0].floats(), pass.parameters[0].subview(0, used), width, pass.output);
                },
                [=](const BackwardPass& pass) {
                  kernels::embed_backward(pass.inputs[0].floats(), pass.output_gradients[0], width,
                                          pass.parameter_gradients[0], pass.adds_parameter_gradients);
                });
          }};
}

Layer position_embedding(std::int64_t max_steps, const Initializer& weight_init) {
  return {
      .kind = "position embedding",
      .traits = {.forward_in_place = true, .backward_in_place = true, .takes_bf16 = true},
      .output_shape = [=](Shapes inputs) -> Shape {
        const Shape& input = single_input("position embedding", inputs, 3);
        if (input[1] > max_steps)
          throw ShapeError(fmt::format("position embedding of {} steps takes no sequence of {}", max_steps, input[1]));
        return input;
      },
      .parameters = [=](Shapes inputs) -> std::vector<ParameterSpec> {
        return {{"weight", {max_steps, inputs[0][2]}, ParameterRole::kWeight, weight_init}};
      },
      .plan = [](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
        const std::size_t steps = extent(context.output, 1), width = extent(context.output, 2);
        return layer_plan(
            [=](const ForwardPass& pass) {
              kernels::add_positions(pass.inputs[0], pass.parameters[0], steps, width, pass.output);
            },
            [=](const BackwardPass& pass) {
              kernels::add_positions_backward(pass.output_gradients[0], steps, width, pass.parameter_gradients[0]);
              if (!pass.input_gradients[0].empty()) kernels::copy(pass.output_gradients[0], pass.input_gradients[0]);
            });
      },
      .next_steps = [](Shapes inputs) -> NextSteps {
        return [width = extent(inputs[0], 2)](const ForwardPass& pass, std::size_t before) {
          const std::size_t steps = pass.output.size() / width;
          kernels::add_positions(pass.inputs[0], pass.parameters[0].subview(before * width, steps * width), steps,
                                 width, pass.output);
        };
      }};
}

Layer attention(std::int64_t heads, bool causal) {
  const std::string kind = fmt::format("{}attention, {} heads", causal ? "causal " : "", heads);
  const auto next_steps = [=](Shapes inputs) -> NextSteps {
    const auto cache = std::make_shared<kernels::AttentionCache>(inputs[0][1], inputs[0][2] / 3, heads);  // by copies
    return [cache](const ForwardPass& pass, std::size_t before) {
      cache->attend(pass.inputs[0].floats(), before, pass.output.floats());
    };
  };
  return {.kind = kind,
          .traits = {.backward_reads_inputs = true, .backward_reads_output = true, .takes_bf16 = true},
          .output_shape = [=](Shapes inputs) -> Shape {
            const Shape& input = single_input(kind, inputs, 3);
            if (input[2] % (3 * heads) != 0)
              throw ShapeError(
                  fmt::format("{} of {}: the features must be a multiple of 3 * heads", kind, input.to_string()));
            return {input[0], input[1], input[2] / 3};
          },
          .forward_flops = [](Shapes inputs) -> double {
            const Shape& input = inputs[0];
            return 2.0 * 2.0 * static_cast<double>(input[0] * input[1] * input[1]) * static_cast<double>(input[2] / 3);
          },
          .plan = [=](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            const Shape& output = context.output;
            return kernels::make_attention_plan(
                context.device, {output[0], output[1], output[2], heads, causal, context.mode == Mode::kTrain,
                                 context.type, context.math});
          },
          .next_steps = causal ? next_steps : std::function<NextSteps(Shapes)>()};
}

Layer lookahead(std::int64_t context_steps) {
  const std::string kind = fmt::format("lookahead {}", context_steps);
  return {.kind = kind,
          .traits = {.backward_reads_inputs = true, .takes_bf16 = true},
          .output_shape = [=](Shapes inputs) -> Shape { return single_input(kind, inputs, 3); },
          .parameters = [=](Shapes inputs) -> std::vector<ParameterSpec> {
            return {{"weight",
                     {context_steps + 1, inputs[0][2]},
                     ParameterRole::kWeight,
                     Initializer::fan_in_uniform(context_steps + 1)}};
          },
          .plan = [=](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            const kernels::LookaheadSpec spec{extent(context.output, 0), extent(context.output, 1),
                                              extent(context.output, 2), static_cast<std::size_t>(context_steps)};
            return layer_plan(
                [=](const ForwardPass& pass) {
                  kernels::lookahead_forward(spec, pass.inputs[0], pass.parameters[0], pass.output);
                },
                [=](const BackwardPass& pass) {
                  kernels::lookahead_backward(spec, pass.inputs[0], pass.parameters[0], pass.output_gradients[0],
                                              pass.input_gradients[0], pass.parameter_gradients[0]);
                });
          }};
}

Layer mask_steps() {
  return {.kind = "mask steps",
          .traits = {.forward_in_place = true, .backward_in_place = true, .takes_bf16 = true},
          .output_shape = [](Shapes inputs) -> Shape {
            const Shape& input = first_input("mask steps", inputs, 1);
            if (input.rank() < 2)
              throw ShapeError(fmt::format("mask steps takes [batch, steps, ...], not {}", input.to_string()));
            return input;
          },
          .plan = [](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            const std::size_t batch = extent(context.output, 0), steps = extent(context.output, 1);
            const std::size_t size = context.output.size() / (batch * steps);
            const kernels::SequenceRows rows{.batch = batch, .steps = steps, .width = size, .size = size};
            return layer_plan(
                [=](const ForwardPass& pass) { kernels::mask_steps(rows, pass.inputs[0], pass.lengths, pass.output); },
                [=](const BackwardPass& pass) {
                  kernels::mask_steps(rows, pass.output_gradients[0], pass.lengths, pass.input_gradients[0]);
                });
          }};
}

Layer swap_axes() {
  return {.kind = "swap axes",
          .traits = {.takes_bf16 = true},
          .output_shape = [](Shapes inputs) -> Shape {
            const Shape& input = single_input("swap axes", inputs, 3);
            return {input[0], input[2], input[1]};
          },
          .plan = [](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            const std::size_t rows = extent(context.inputs[0], 1), columns = extent(context.inputs[0], 2);
            return layer_plan(
                [=](const ForwardPass& pass) { kernels::swap_axes(pass.inputs[0], rows, columns, pass.output); },
                [=](const BackwardPass& pass) {
                  kernels::swap_axes(pass.output_gradients[0], columns, rows, pass.input_gradients[0]);
                });
          }};
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// Layers that work element by element: activations, dropout, sums; and views of the same values under another shape.
#include "kernels/nn/elementwise.h"

#include <fmt/format.h>

#include "kernels/nn/activation.h"
#include "layers/layers.h"

namespace dragonn::layers {

Layer activation(kernels::Activation activation) {
  constexpr const char* kNames[] = {"ReLU",    "clipped ReLU", "tanh",
                                    "sigmoid", "GELU",         "tanh GELU"};  // in the order of the enum
  const char* const kind = kNames[static_cast<std::size_t>(activation)];
  const bool reads_input = kernels::activation_backward_reads_input(activation);
  return {.kind = kind,
          .traits = {.backward_reads_inputs = reads_input,
                     .backward_reads_output = !reads_input,
                     .forward_in_place = !reads_input,
                     .backward_in_place = true,
                     .takes_bf16 = true,
                     .is_cheap = reads_input,
                     .is_stepwise = true},
          .output_shape = [=](Shapes inputs) -> Shape { return first_input(kind, inputs, 1); },
          .plan = [=](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            return kernels::make_activation_plan(context.device, activation, context.output.size());
          }};
}

Layer dropout(double rate) {
  const auto share = static_cast<float>(rate);
  if (!(rate >= 0 && share < 1)) throw ConfigError(fmt::format("dropout rate {}: valid are numbers in [0, 1)", rate));
  const std::string kind = fmt::format("dropout {}", share);
  return {.kind = kind,
          .traits = {.forward_in_place = true,
                     .backward_in_place = true,
                     .is_random = true,
                     .takes_bf16 = true,
                     .is_stepwise = true},
          .output_shape = [=](Shapes inputs) -> Shape { return first_input(kind, inputs, 1); },
          .plan = [=](const PlanContext& context) -> std::unique_ptr<LayerPlan> {
            return layer_plan(
                [=, mode = context.mode](const ForwardPass& pass) {
                  if (mode == Mode::kTrain)
                    kernels::dropout(pass.inputs[0], share, pass.stream, pass.output);
                  else
                    kernels::copy(pass.inputs[0], pass.output);
                },
                [=](const BackwardPass& pass) {
                  kernels::dropout(pass.output_gradients[0], share, pass.stream, pass.input_gradients[0]);
                });
          }};
}

Layer residual_add(bool relu) {
  const char* const kind = relu ? "add + ReLU" : "add";
  return {.kind = kind,
          .traits = {.backward_reads_output = relu, .forward_in_place = true, .takes_bf16 = true, .is_stepwise = true},
          .output_shape = [=](Shapes inputs) -> Shape {
            const Shape& input = first_input(kind, inputs, 2);
            if (inputs[1] != input)
              throw ShapeError(fmt::format("{} of {} and {}", kind, input.to_string(), inputs[1].to_string()));
            return input;
          },
          .plan = [=](const PlanContext&) -> std::unique_ptr<LayerPlan> {
            return layer_plan(
                [=](const ForwardPass& pass) {
                  (relu ? kernels::add_relu : kernels::add)(pass.inputs[0], pass.inputs[1], pass.output);
                },
                [=](const BackwardPass& pass) {  // both inputs have the same gradient
                  for (const kernels::TypedView<float>& gradient : pass.input_gradients) {
                    if (gradient.empty()) continue;
                    if (relu)
                      kernels::relu_backward(pass.output, pass.output_gradients[0], gradient);
                    else
                      kernels::copy(pass.output_gradients[0], gradient);
                  }
                });
          }};
}

namespace {

/// Makes a view. @param rank of the input; 0 takes any.
Layer view(const char* kind, std::size_t rank, Shape (*reshape)(const Shape&)) {
  return {.kind = kind, .traits = {.is_view = true, .takes_bf16 = true}, .output_shape = [=](Shapes inputs) -> Shape {
            return reshape(rank == 0 ? first_input(kind, inputs, 1) : single_input(kind, inputs, rank));
          }};
}

}  // namespace

Layer flatten() {
  return view("flatten", 0, [](const Shape& input) -> Shape {
    std::int64_t features = 1;
    for (std::int64_t extent : input.extents().subspan(1)) features *= extent;
    return {input[0], features};
  });
}

Layer add_channel() {
  return view("add channel", 3, [](const Shape& input) -> Shape { return {input[0], input[1], input[2], 1}; });
}

Layer merge_channels() {
  return view("merge channels", 4, [](const Shape& input) -> Shape {
    return {input[0], input[1], input[2] * input[3]};
  });
}

Layer merge_pixels() {
  return view("merge pixels", 4, [](const Shape& input) -> Shape { return {input[0], input[1] * input[2], input[3]}; });
}

Layer steps_to_pixels() {
  return view("steps to pixels", 3, [](const Shape& input) -> Shape { return {input[0], input[1], 1, input[2]}; });
}

}  // namespace dragonn::layers

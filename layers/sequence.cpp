// SPDX-License-Identifier: MIT
/// Layers between the steps of sequences, beside recurrent layers and attention.
#include <fmt/format.h>

#include "kernels/nn/sequence_rows.h"
#include "layers/layer.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

/// Runs the convolution. The input behind a sample's length must be zeros, as recurrent layers leave it; the output
/// there is then zero, too.
class Lookahead final : public Layer {
 public:
  explicit Lookahead(std::int64_t context) : context_(context) {}

  std::string kind() const override { return fmt::format("lookahead {}", context_); }
  LayerTraits traits() const override { return {.backward_reads_inputs = true, .takes_bf16 = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override { return single_input(kind(), inputs, 3); }
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    return {
        {"weight", {context_ + 1, inputs[0][2]}, ParameterRole::kWeight, Initializer::fan_in_uniform(context_ + 1)}};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const auto extent = [&](std::size_t axis) { return static_cast<std::size_t>(context.output[axis]); };
    const kernels::LookaheadSpec spec{extent(0), extent(1), extent(2), static_cast<std::size_t>(context_)};
    return layer_plan(
        [=](const ForwardPass& pass) {
          kernels::lookahead_forward(spec, pass.inputs[0], pass.parameters[0], pass.output);
        },
        [=](const BackwardPass& pass) {
          kernels::lookahead_backward(spec, pass.inputs[0], pass.parameters[0], pass.output_gradients[0],
                                      pass.input_gradients[0], pass.parameter_gradients[0]);
        });
  }

 private:
  std::int64_t context_;
};

class MaskSteps final : public Layer {
 public:
  std::string kind() const override { return "mask steps"; }
  LayerTraits traits() const override {
    return {.forward_in_place = true, .backward_in_place = true, .takes_bf16 = true};
  }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, 1);
    if (input.rank() < 2)
      throw ShapeError(fmt::format("{} takes [batch, steps, ...], not {}", kind(), input.to_string()));
    return input;
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const auto extent = [&](std::size_t axis) { return static_cast<std::size_t>(context.output[axis]); };
    const std::size_t size = context.output.size() / (extent(0) * extent(1));
    const kernels::SequenceRows rows{.batch = extent(0), .steps = extent(1), .width = size, .size = size};
    return layer_plan(
        [=](const ForwardPass& pass) { kernels::mask_steps(rows, pass.inputs[0], pass.lengths, pass.output); },
        [=](const BackwardPass& pass) {
          kernels::mask_steps(rows, pass.output_gradients[0], pass.lengths, pass.input_gradients[0]);
        });
  }
};

class SwapAxes final : public Layer {
 public:
  std::string kind() const override { return "swap axes"; }
  LayerTraits traits() const override { return {.takes_bf16 = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = single_input(kind(), inputs, 3);
    return {input[0], input[2], input[1]};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const auto rows = static_cast<std::size_t>(context.inputs[0][1]);
    const auto columns = static_cast<std::size_t>(context.inputs[0][2]);
    return layer_plan([=](const ForwardPass& pass) { kernels::swap_axes(pass.inputs[0], rows, columns, pass.output); },
                      [=](const BackwardPass& pass) {
                        kernels::swap_axes(pass.output_gradients[0], columns, rows, pass.input_gradients[0]);
                      });
  }
};

}  // namespace

std::unique_ptr<Layer> lookahead(std::int64_t context) {
  return std::make_unique<Lookahead>(context);
}

std::unique_ptr<Layer> mask_steps() {
  return std::make_unique<MaskSteps>();
}

std::unique_ptr<Layer> swap_axes() {
  return std::make_unique<SwapAxes>();
}

}  // namespace dragonn::layers

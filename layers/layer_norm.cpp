// SPDX-License-Identifier: MIT
#include "kernels/nn/layer_norm.h"

#include <utility>

#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class LayerNormLayerPlan final : public LayerPlan {
 public:
  LayerNormLayerPlan(std::unique_ptr<kernels::LayerNormPlan> plan, std::size_t unwanted)
      : plan_(std::move(plan)), unwanted_(unwanted) {}

  kernels::PlanMemory memory() const override {
    kernels::PlanMemory memory = plan_->memory();
    memory.backward_scratch = kernels::aligned_floats(memory.backward_scratch) + unwanted_;
    return memory;
  }

  void forward(const ForwardPass& pass) override {
    plan_->forward({pass.inputs[0], pass.parameters[0], pass.parameters[1], pass.output, pass.saved, pass.scratch});
  }
  void backward(const BackwardPass& pass) override {
    // The kernel always writes the input's gradient: if nobody wants it, it goes to scratch memory.
    const std::size_t own = kernels::aligned_floats(plan_->memory().backward_scratch);
    const View<float> input_gradient =
        pass.input_gradients[0].empty() ? pass.scratch.subview(own, pass.inputs[0].size()) : pass.input_gradients[0];
    plan_->backward({pass.inputs[0], pass.parameters[0], pass.parameters[1], pass.output_gradients[0], input_gradient,
                     pass.parameter_gradients[0], pass.parameter_gradients[1], pass.saved,
                     pass.scratch.subview(0, own)});
  }

 private:
  std::unique_ptr<kernels::LayerNormPlan> plan_;
  std::size_t unwanted_;
};

class LayerNorm final : public Layer {
 public:
  std::string kind() const override { return "layer norm"; }
  LayerTraits traits() const override { return {.backward_reads_inputs = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, 1);
    if (input.rank() < 2)
      throw ShapeError(fmt::format("{} takes [batch, ..., features], not {}", kind(), input.to_string()));
    return input;
  }
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    const Shape features{features_of(inputs[0])};
    return {{"weight", features, ParameterRole::kNormalization, Initializer::constant(1)},
            {"bias", features, ParameterRole::kNormalization, Initializer::constant(0)}};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const std::int64_t features = features_of(context.output);
    const auto size = static_cast<std::int64_t>(context.output.size());
    return std::make_unique<LayerNormLayerPlan>(
        kernels::make_layer_norm_plan(
            context.device, {.rows = size / features, .columns = features, .training = context.mode == Mode::kTrain}),
        context.input_gradients[0] ? 0 : context.output.size());
  }

 private:
  static std::int64_t features_of(const Shape& shape) { return shape[shape.rank() - 1]; }
};

}  // namespace

std::unique_ptr<Layer> layer_norm() {
  return std::make_unique<LayerNorm>();
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
#include "kernels/nn/sequence_rows.h"
#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class MaskStepsPlan final : public LayerPlan {
 public:
  explicit MaskStepsPlan(const Shape& shape) {
    rows_.batch = static_cast<std::size_t>(shape[0]);
    rows_.steps = static_cast<std::size_t>(shape[1]);
    rows_.width = rows_.size = shape.size() / (rows_.batch * rows_.steps);
  }

  void forward(const ForwardPass& pass) override {
    kernels::mask_steps(rows_, pass.inputs[0], pass.lengths, pass.output);
  }
  void backward(const BackwardPass& pass) override {
    kernels::mask_steps(rows_, pass.output_gradients[0], pass.lengths, pass.input_gradients[0]);
  }

 private:
  kernels::SequenceRows rows_;
};

class MaskSteps final : public Layer {
 public:
  std::string kind() const override { return "mask steps"; }
  LayerTraits traits() const override { return {.forward_in_place = true, .backward_in_place = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, 1);
    if (input.rank() < 2)
      throw ShapeError(fmt::format("{} takes [batch, steps, ...], not {}", kind(), input.to_string()));
    return input;
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    return std::make_unique<MaskStepsPlan>(context.output);
  }
};

}  // namespace

std::unique_ptr<Layer> mask_steps() {
  return std::make_unique<MaskSteps>();
}

}  // namespace dragonn::layers

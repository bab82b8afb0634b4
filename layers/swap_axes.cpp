// SPDX-License-Identifier: MIT
#include "kernels/nn/swap_axes.h"

#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class SwapAxesPlan final : public LayerPlan {
 public:
  explicit SwapAxesPlan(const Shape& input)
      : rows_(static_cast<std::size_t>(input[1])), columns_(static_cast<std::size_t>(input[2])) {}

  void forward(const ForwardPass& pass) override { kernels::swap_axes(pass.inputs[0], rows_, columns_, pass.output); }
  void backward(const BackwardPass& pass) override {
    kernels::swap_axes(pass.output_gradients[0], columns_, rows_, pass.input_gradients[0]);
  }

 private:
  std::size_t rows_, columns_;
};

class SwapAxes final : public Layer {
 public:
  std::string kind() const override { return "swap axes"; }
  LayerTraits traits() const override { return {}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = single_input(kind(), inputs, 3);
    return {input[0], input[2], input[1]};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    return std::make_unique<SwapAxesPlan>(context.inputs[0]);
  }
};

}  // namespace

std::unique_ptr<Layer> swap_axes() {
  return std::make_unique<SwapAxes>();
}

}  // namespace dragonn::layers

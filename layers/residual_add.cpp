// SPDX-License-Identifier: MIT

#include "kernels/nn/elementwise.h"
#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class ResidualAddPlan final : public LayerPlan {
 public:
  explicit ResidualAddPlan(bool relu) : relu_(relu) {}

  void forward(const ForwardPass& pass) override {
    (relu_ ? kernels::add_relu : kernels::add)(pass.inputs[0], pass.inputs[1], pass.output);
  }

  /// Passes the gradient on: both inputs have the same.
  void backward(const BackwardPass& pass) override {
    for (const View<float>& gradient : pass.input_gradients) {
      if (gradient.empty()) continue;
      if (relu_)
        kernels::relu_backward(pass.output, pass.output_gradients[0], gradient);
      else
        kernels::copy(pass.output_gradients[0], gradient);
    }
  }

 private:
  bool relu_;
};

class ResidualAdd final : public Layer {
 public:
  explicit ResidualAdd(bool relu) : relu_(relu) {}

  std::string kind() const override { return relu_ ? "add + ReLU" : "add"; }
  LayerTraits traits() const override { return {.backward_reads_output = relu_, .forward_in_place = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, 2);
    if (inputs[1] != input)
      throw ShapeError(fmt::format("{} of {} and {}", kind(), input.to_string(), inputs[1].to_string()));
    return input;
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext&) const override {
    return std::make_unique<ResidualAddPlan>(relu_);
  }

 private:
  bool relu_;
};

}  // namespace

std::unique_ptr<Layer> residual_add(bool relu) {
  return std::make_unique<ResidualAdd>(relu);
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
#include "kernels/nn/activation.h"

#include <utility>

#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class ActivationLayerPlan final : public LayerPlan {
 public:
  ActivationLayerPlan(std::unique_ptr<kernels::ActivationPlan> plan, bool reads_input)
      : plan_(std::move(plan)), reads_input_(reads_input) {}

  void forward(const ForwardPass& pass) override { plan_->forward(pass.inputs[0], pass.output); }
  void backward(const BackwardPass& pass) override {
    plan_->backward(reads_input_ ? pass.inputs[0] : pass.output, pass.output_gradients[0], pass.input_gradients[0]);
  }

 private:
  std::unique_ptr<kernels::ActivationPlan> plan_;
  bool reads_input_;
};

class ActivationLayer final : public Layer {
 public:
  explicit ActivationLayer(kernels::Activation activation) : activation_(activation) {}

  std::string kind() const override {
    switch (activation_) {
      case kernels::Activation::kRelu:
        return "ReLU";
      case kernels::Activation::kClippedRelu:
        return "clipped ReLU";
      case kernels::Activation::kTanh:
        return "tanh";
      case kernels::Activation::kSigmoid:
        return "sigmoid";
      case kernels::Activation::kGelu:
        return "GELU";
    }
    throw Error("unknown activation");
  }
  LayerTraits traits() const override {
    return {.backward_reads_inputs = reads_input(),
            .backward_reads_output = !reads_input(),
            .forward_in_place = !reads_input(),
            .backward_in_place = true};
  }
  Shape output_shape(std::span<const Shape> inputs) const override { return first_input(kind(), inputs, 1); }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    return std::make_unique<ActivationLayerPlan>(
        kernels::make_activation_plan(context.device, activation_, context.output.size()), reads_input());
  }

 private:
  bool reads_input() const { return kernels::activation_backward_reads_input(activation_); }

  kernels::Activation activation_;
};

}  // namespace

std::unique_ptr<Layer> activation(kernels::Activation activation) {
  return std::make_unique<ActivationLayer>(activation);
}

}  // namespace dragonn::layers

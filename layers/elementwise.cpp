// SPDX-License-Identifier: MIT
/// Layers whose output has the shape of their input: activations, dropout, sums.
#include "kernels/nn/elementwise.h"

#include <fmt/format.h>

#include "kernels/nn/activation.h"
#include "layers/layer.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

class ActivationLayer final : public Layer {
 public:
  explicit ActivationLayer(kernels::Activation activation) : activation_(activation) {}

  std::string kind() const override {
    constexpr const char* kNames[] = {"ReLU", "clipped ReLU", "tanh", "sigmoid", "GELU"};  // in the order of the enum
    return kNames[static_cast<std::size_t>(activation_)];
  }
  LayerTraits traits() const override {
    return {.backward_reads_inputs = reads_input(),
            .backward_reads_output = !reads_input(),
            .forward_in_place = !reads_input(),
            .backward_in_place = true,
            .takes_bf16 = true};
  }
  Shape output_shape(std::span<const Shape> inputs) const override { return first_input(kind(), inputs, 1); }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    return kernels::make_activation_plan(context.device, activation_, context.output.size());
  }

 private:
  bool reads_input() const { return kernels::activation_backward_reads_input(activation_); }

  kernels::Activation activation_;
};

class Dropout final : public Layer {
 public:
  explicit Dropout(double rate) : rate_(static_cast<float>(rate)) {
    if (!(rate >= 0 && rate_ < 1)) throw ConfigError(fmt::format("dropout rate {}: valid are numbers in [0, 1)", rate));
  }

  std::string kind() const override { return fmt::format("dropout {}", rate_); }
  LayerTraits traits() const override {
    return {.forward_in_place = true, .backward_in_place = true, .is_random = true, .takes_bf16 = true};
  }
  Shape output_shape(std::span<const Shape> inputs) const override { return first_input(kind(), inputs, 1); }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    return layer_plan(
        [rate = rate_, mode = context.mode](const ForwardPass& pass) {
          if (mode == Mode::kTrain)
            kernels::dropout(pass.inputs[0], rate, pass.stream, pass.output);
          else
            kernels::copy(pass.inputs[0], pass.output);
        },
        [rate = rate_](const BackwardPass& pass) {
          kernels::dropout(pass.output_gradients[0], rate, pass.stream, pass.input_gradients[0]);
        });
  }

 private:
  float rate_;
};

class ResidualAdd final : public Layer {
 public:
  explicit ResidualAdd(bool relu) : relu_(relu) {}

  std::string kind() const override { return relu_ ? "add + ReLU" : "add"; }
  LayerTraits traits() const override {
    return {.backward_reads_output = relu_, .forward_in_place = true, .takes_bf16 = true};
  }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, 2);
    if (inputs[1] != input)
      throw ShapeError(fmt::format("{} of {} and {}", kind(), input.to_string(), inputs[1].to_string()));
    return input;
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext&) const override {
    return layer_plan(
        [relu = relu_](const ForwardPass& pass) {
          (relu ? kernels::add_relu : kernels::add)(pass.inputs[0], pass.inputs[1], pass.output);
        },
        [relu = relu_](const BackwardPass& pass) {  // both inputs have the same gradient
          for (const kernels::TypedView<float>& gradient : pass.input_gradients) {
            if (gradient.empty()) continue;
            if (relu)
              kernels::relu_backward(pass.output, pass.output_gradients[0], gradient);
            else
              kernels::copy(pass.output_gradients[0], gradient);
          }
        });
  }

 private:
  bool relu_;
};

}  // namespace

std::unique_ptr<Layer> activation(kernels::Activation activation) {
  return std::make_unique<ActivationLayer>(activation);
}

std::unique_ptr<Layer> dropout(double rate) {
  return std::make_unique<Dropout>(rate);
}

std::unique_ptr<Layer> residual_add(bool relu) {
  return std::make_unique<ResidualAdd>(relu);
}

}  // namespace dragonn::layers

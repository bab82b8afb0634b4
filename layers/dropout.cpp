// SPDX-License-Identifier: MIT
#include "kernels/nn/dropout.h"

#include <fmt/format.h>

#include "kernels/nn/elementwise.h"
#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class DropoutPlan final : public LayerPlan {
 public:
  DropoutPlan(float rate, Mode mode) : rate_(rate), mode_(mode) {}

  void forward(const ForwardPass& pass) override {
    if (mode_ == Mode::kTrain)
      kernels::dropout(pass.inputs[0], rate_, pass.stream, pass.output);
    else
      kernels::copy(pass.inputs[0], pass.output);
  }
  void backward(const BackwardPass& pass) override {
    kernels::dropout(pass.output_gradients[0], rate_, pass.stream, pass.input_gradients[0]);
  }

 private:
  float rate_;
  Mode mode_;
};

class Dropout final : public Layer {
 public:
  explicit Dropout(double rate) : rate_(static_cast<float>(rate)) {
    if (!(rate >= 0 && rate_ < 1)) throw ConfigError(fmt::format("dropout rate {}: valid are numbers in [0, 1)", rate));
  }

  std::string kind() const override { return fmt::format("dropout {}", rate_); }
  LayerTraits traits() const override {
    return {.forward_in_place = true, .backward_in_place = true, .is_random = true};
  }
  Shape output_shape(std::span<const Shape> inputs) const override { return first_input(kind(), inputs, 1); }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    return std::make_unique<DropoutPlan>(rate_, context.mode);
  }

 private:
  float rate_;
};

}  // namespace

std::unique_ptr<Layer> dropout(double rate) {
  return std::make_unique<Dropout>(rate);
}

}  // namespace dragonn::layers

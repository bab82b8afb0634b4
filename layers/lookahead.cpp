// SPDX-License-Identifier: MIT
#include "kernels/nn/lookahead.h"

#include <fmt/format.h>

#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

/// Runs the convolution. The input behind a sample's length must be zeros, as recurrent layers leave it; the output
/// there is then zero, too.
class LookaheadPlan final : public LayerPlan {
 public:
  explicit LookaheadPlan(const kernels::LookaheadSpec& spec) : spec_(spec) {}

  void forward(const ForwardPass& pass) override {
    kernels::lookahead_forward(spec_, pass.inputs[0], pass.parameters[0], pass.output);
  }
  void backward(const BackwardPass& pass) override {
    kernels::lookahead_backward(spec_, pass.inputs[0], pass.parameters[0], pass.output_gradients[0],
                                pass.input_gradients[0], pass.parameter_gradients[0]);
  }

 private:
  kernels::LookaheadSpec spec_;
};

class Lookahead final : public Layer {
 public:
  explicit Lookahead(std::int64_t context) : context_(context) {}

  std::string kind() const override { return fmt::format("lookahead {}", context_); }
  LayerTraits traits() const override { return {.backward_reads_inputs = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override { return single_input(kind(), inputs, 3); }
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    return {
        {"weight", {context_ + 1, inputs[0][2]}, ParameterRole::kWeight, Initializer::fan_in_uniform(context_ + 1)}};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const auto extent = [&](std::size_t axis) { return static_cast<std::size_t>(context.output[axis]); };
    return std::make_unique<LookaheadPlan>(
        kernels::LookaheadSpec{extent(0), extent(1), extent(2), static_cast<std::size_t>(context_)});
  }

 private:
  std::int64_t context_;
};

}  // namespace

std::unique_ptr<Layer> lookahead(std::int64_t context) {
  return std::make_unique<Lookahead>(context);
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
#include "kernels/nn/linear.h"

#include "layers/layers.h"
#include "layers/shape_checks.h"
#include "layers/weighted_layer.h"

namespace dragonn::layers {
namespace {

class Linear final : public Layer {
 public:
  explicit Linear(const LinearSettings& settings) : settings_(settings) {}

  std::string kind() const override { return "linear"; }
  LayerTraits traits() const override { return {.backward_reads_inputs = true}; }

  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, 1);
    if (input.rank() == 3) return {input[0], input[1], settings_.outputs};
    return {single_input(kind(), inputs, 2)[0], settings_.outputs};
  }

  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    const std::int64_t features = features_of(inputs[0]);
    return weighted_parameters({{settings_.outputs, features},
                                settings_.outputs,
                                features,
                                settings_.outputs,
                                settings_.bias,
                                settings_.weight_init,
                                settings_.bias_init,
                                settings_.initial_bound});
  }

  double forward_flops(std::span<const Shape> inputs) const override {
    return 2.0 * static_cast<double>(inputs[0].size()) * static_cast<double>(settings_.outputs);
  }

  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    return weighted_layer_plan(kernels::make_linear_plan(
        context.device,
        {static_cast<std::int64_t>(context.output.size()) / settings_.outputs, features_of(context.inputs[0]),
         settings_.outputs, settings_.bias, context.mode == Mode::kTrain, context.input_gradients[0]}));
  }

 private:
  static std::int64_t features_of(const Shape& input) { return input[input.rank() - 1]; }

  LinearSettings settings_;
};

}  // namespace

std::unique_ptr<Layer> linear(const LinearSettings& settings) {
  return std::make_unique<Linear>(settings);
}

}  // namespace dragonn::layers

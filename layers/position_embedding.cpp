// SPDX-License-Identifier: MIT
#include "kernels/nn/position_embedding.h"

#include <fmt/format.h>

#include "kernels/nn/elementwise.h"
#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class PositionEmbeddingPlan final : public LayerPlan {
 public:
  explicit PositionEmbeddingPlan(const Shape& shape)
      : steps_(static_cast<std::size_t>(shape[1])), width_(static_cast<std::size_t>(shape[2])) {}

  void forward(const ForwardPass& pass) override {
    kernels::add_positions(pass.inputs[0], pass.parameters[0], steps_, width_, pass.output);
  }
  void backward(const BackwardPass& pass) override {
    kernels::add_positions_backward(pass.output_gradients[0], steps_, width_, pass.parameter_gradients[0]);
    if (!pass.input_gradients[0].empty()) kernels::copy(pass.output_gradients[0], pass.input_gradients[0]);
  }

 private:
  std::size_t steps_, width_;
};

class PositionEmbedding final : public Layer {
 public:
  explicit PositionEmbedding(std::int64_t most_steps) : most_steps_(most_steps) {}

  std::string kind() const override { return "position embedding"; }
  LayerTraits traits() const override { return {.forward_in_place = true, .backward_in_place = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = single_input(kind(), inputs, 3);
    if (input[1] > most_steps_)
      throw ShapeError(fmt::format("{} of {} steps takes no sequence of {}", kind(), most_steps_, input[1]));
    return input;
  }
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    return {{"weight", {most_steps_, inputs[0][2]}, ParameterRole::kWeight, Initializer::normal(kDeviation)}};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    return std::make_unique<PositionEmbeddingPlan>(context.output);
  }

 private:
  static constexpr double kDeviation = 0.02;  // as BERT's and ViT's

  std::int64_t most_steps_;
};

}  // namespace

std::unique_ptr<Layer> position_embedding(std::int64_t most_steps) {
  return std::make_unique<PositionEmbedding>(most_steps);
}

}  // namespace dragonn::layers

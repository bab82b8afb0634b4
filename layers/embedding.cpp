// SPDX-License-Identifier: MIT
/// Embeddings of tokens and of positions.
#include "kernels/nn/embedding.h"

#include <fmt/format.h>

#include "kernels/nn/elementwise.h"
#include "layers/layer.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

class Embedding final : public Layer {
 public:
  explicit Embedding(const EmbeddingSettings& settings) : settings_(settings) {}

  std::string kind() const override { return fmt::format("embedding of {}", settings_.tokens); }
  LayerTraits traits() const override {
    return {.backward_reads_inputs = true, .takes_bf16 = true, .takes_tokens = true};
  }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = single_input(kind(), inputs, 2);
    return {input[0], input[1], settings_.width};
  }
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const override {
    const Initializer initializer = settings_.initial_bound > 0 ? Initializer::uniform(settings_.initial_bound)
                                                                : Initializer::normal(settings_.initial_deviation);
    return {{"weight", {settings_.tokens, settings_.width}, ParameterRole::kWeight, initializer}};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    DRAGONN_CHECK(!context.input_gradients[0], "tokens have no gradient");
    const auto width = static_cast<std::size_t>(settings_.width);
    return layer_plan(
        [=](const ForwardPass& pass) {
          kernels::embed(pass.inputs[0].floats(), pass.parameters[0], width, pass.output);
        },
        [=](const BackwardPass& pass) {
          kernels::embed_backward(pass.inputs[0].floats(), pass.output_gradients[0], width,
                                  pass.parameter_gradients[0]);
        });
  }

 private:
  EmbeddingSettings settings_;
};

class PositionEmbedding final : public Layer {
 public:
  explicit PositionEmbedding(std::int64_t max_steps) : max_steps_(max_steps) {}

  std::string kind() const override { return "position embedding"; }
  LayerTraits traits() const override {
    return {.forward_in_place = true, .backward_in_place = true, .takes_bf16 = true};
  }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = single_input(kind(), inputs, 3);
    if (input[1] > max_steps_)
      throw ShapeError(fmt::format("{} of {} steps takes no sequence of {}", kind(), max_steps_, input[1]));
    return input;
  }
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    return {{"weight", {max_steps_, inputs[0][2]}, ParameterRole::kWeight, Initializer::normal(kDeviation)}};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const auto steps = static_cast<std::size_t>(context.output[1]), width = static_cast<std::size_t>(context.output[2]);
    return layer_plan(
        [=](const ForwardPass& pass) {
          kernels::add_positions(pass.inputs[0], pass.parameters[0], steps, width, pass.output);
        },
        [=](const BackwardPass& pass) {
          kernels::add_positions_backward(pass.output_gradients[0], steps, width, pass.parameter_gradients[0]);
          if (!pass.input_gradients[0].empty()) kernels::copy(pass.output_gradients[0], pass.input_gradients[0]);
        });
  }

 private:
  static constexpr double kDeviation = 0.02;  // as BERT's and ViT's

  std::int64_t max_steps_;
};

}  // namespace

std::unique_ptr<Layer> embedding(const EmbeddingSettings& settings) {
  return std::make_unique<Embedding>(settings);
}

std::unique_ptr<Layer> position_embedding(std::int64_t max_steps) {
  return std::make_unique<PositionEmbedding>(max_steps);
}

}  // namespace dragonn::layers

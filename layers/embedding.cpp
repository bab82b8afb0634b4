// SPDX-License-Identifier: MIT
#include "kernels/nn/embedding.h"

#include <fmt/format.h>

#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class EmbeddingPlan final : public LayerPlan {
 public:
  explicit EmbeddingPlan(std::int64_t width) : width_(static_cast<std::size_t>(width)) {}

  void forward(const ForwardPass& pass) override {
    kernels::embed(pass.inputs[0], pass.parameters[0], width_, pass.output);
  }
  void backward(const BackwardPass& pass) override {
    kernels::embed_backward(pass.inputs[0], pass.output_gradients[0], width_, pass.parameter_gradients[0]);
  }

 private:
  std::size_t width_;
};

class Embedding final : public Layer {
 public:
  explicit Embedding(const EmbeddingSettings& settings) : settings_(settings) {}

  std::string kind() const override { return fmt::format("embedding of {}", settings_.tokens); }
  LayerTraits traits() const override { return {.backward_reads_inputs = true}; }
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
    return std::make_unique<EmbeddingPlan>(settings_.width);
  }

 private:
  EmbeddingSettings settings_;
};

}  // namespace

std::unique_ptr<Layer> embedding(const EmbeddingSettings& settings) {
  return std::make_unique<Embedding>(settings);
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
#include "kernels/nn/pooling.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class PoolingLayerPlan final : public LayerPlan {
 public:
  explicit PoolingLayerPlan(std::unique_ptr<kernels::PoolingPlan> plan) : plan_(std::move(plan)) {}

  kernels::PlanMemory memory() const override { return plan_->memory(); }
  void forward(const ForwardPass& pass) override {
    plan_->forward(pass.inputs[0], pass.output, pass.saved, pass.scratch);
  }
  void backward(const BackwardPass& pass) override {
    plan_->backward(pass.output_gradients[0], pass.input_gradients[0], pass.saved, pass.scratch);
  }

 private:
  std::unique_ptr<kernels::PoolingPlan> plan_;
};

class Pooling final : public Layer {
 public:
  /// Pools the whole image if there is no window.
  Pooling(kernels::PoolingKind pooling, std::optional<kernels::Window> window)
      : pooling_(pooling), window_(std::move(window)) {}

  std::string kind() const override {
    const char* name = pooling_ == kernels::PoolingKind::kMaximum ? "max pooling" : "average pooling";
    return window_ ? fmt::format("{} {}x{}/{}", name, window_->kernel, window_->kernel, window_->stride)
                   : fmt::format("global {}", name);
  }
  LayerTraits traits() const override { return {}; }

  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = single_input(kind(), inputs, 4);
    const auto [vertical, horizontal] = windows(input);
    const std::int64_t height = vertical.outputs(input[1]), width = horizontal.outputs(input[2]);
    if (height < 1 || width < 1)
      throw ShapeError(fmt::format("{} does not fit an image of {}", kind(), input.to_string()));
    return {input[0], height, width, input[3]};
  }

  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const Shape& input = context.inputs[0];
    const auto [vertical, horizontal] = windows(input);
    return std::make_unique<PoolingLayerPlan>(kernels::make_pooling_plan(
        context.device,
        {pooling_, input[0], input[1], input[2], input[3], vertical, horizontal, context.mode == Mode::kTrain}));
  }

 private:
  std::pair<kernels::Window, kernels::Window> windows(const Shape& input) const {
    if (window_) return {*window_, *window_};
    return {{input[1], 1, 0}, {input[2], 1, 0}};
  }

  kernels::PoolingKind pooling_;
  std::optional<kernels::Window> window_;
};

}  // namespace

std::unique_ptr<Layer> max_pooling(const kernels::Window& window) {
  return std::make_unique<Pooling>(kernels::PoolingKind::kMaximum, window);
}

std::unique_ptr<Layer> average_pooling(const kernels::Window& window) {
  return std::make_unique<Pooling>(kernels::PoolingKind::kAverage, window);
}

std::unique_ptr<Layer> global_average_pooling() {
  return std::make_unique<Pooling>(kernels::PoolingKind::kAverage, std::nullopt);
}

}  // namespace dragonn::layers

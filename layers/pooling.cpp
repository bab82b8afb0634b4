// SPDX-License-Identifier: MIT
/// Pooling, and the parameter-free shortcut that takes every stride-th pixel.
#include "kernels/nn/pooling.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "layers/layer.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

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
  LayerTraits traits() const override { return {.takes_bf16 = true}; }

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
    return kernels::make_pooling_plan(context.device, {pooling_, input[0], input[1], input[2], input[3], vertical,
                                                       horizontal, context.mode == Mode::kTrain});
  }

 private:
  std::pair<kernels::Window, kernels::Window> windows(const Shape& input) const {
    if (window_) return {*window_, *window_};
    return {{input[1], 1, 0}, {input[2], 1, 0}};
  }

  kernels::PoolingKind pooling_;
  std::optional<kernels::Window> window_;
};

class PaddedShortcut final : public Layer {
 public:
  PaddedShortcut(std::int64_t output_channels, std::int64_t stride)
      : output_channels_(output_channels), stride_(stride) {}

  std::string kind() const override { return "padded shortcut"; }
  LayerTraits traits() const override { return {.takes_bf16 = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = single_input(kind(), inputs, 4);
    if (output_channels_ < input[3])
      throw ShapeError(
          fmt::format("{} of {} to {} channels: cannot drop any", kind(), input.to_string(), output_channels_));
    return {input[0], (input[1] + stride_ - 1) / stride_, (input[2] + stride_ - 1) / stride_, output_channels_};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const auto extent = [&](std::size_t axis) { return static_cast<std::size_t>(context.inputs[0][axis]); };
    const kernels::PaddedShortcutSpec spec{extent(0),
                                           extent(1),
                                           extent(2),
                                           extent(3),
                                           static_cast<std::size_t>(output_channels_),
                                           static_cast<std::size_t>(stride_)};
    return layer_plan(
        [=](const ForwardPass& pass) { kernels::padded_shortcut_forward(spec, pass.inputs[0], pass.output); },
        [=](const BackwardPass& pass) {
          kernels::padded_shortcut_backward(spec, pass.output_gradients[0], pass.input_gradients[0]);
        });
  }

 private:
  std::int64_t output_channels_;
  std::int64_t stride_;
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

std::unique_ptr<Layer> padded_shortcut(std::int64_t output_channels, std::int64_t stride) {
  return std::make_unique<PaddedShortcut>(output_channels, stride);
}

}  // namespace dragonn::layers

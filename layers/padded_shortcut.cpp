// SPDX-License-Identifier: MIT
#include "kernels/nn/padded_shortcut.h"

#include "layers/layers.h"
#include "layers/shape_checks.h"

namespace dragonn::layers {
namespace {

class PaddedShortcutPlan final : public LayerPlan {
 public:
  explicit PaddedShortcutPlan(const kernels::PaddedShortcutSpec& spec) : spec_(spec) {}

  void forward(const ForwardPass& pass) override {
    kernels::padded_shortcut_forward(spec_, pass.inputs[0], pass.output);
  }
  void backward(const BackwardPass& pass) override {
    kernels::padded_shortcut_backward(spec_, pass.output_gradients[0], pass.input_gradients[0]);
  }

 private:
  kernels::PaddedShortcutSpec spec_;
};

class PaddedShortcut final : public Layer {
 public:
  PaddedShortcut(std::int64_t output_channels, std::int64_t stride)
      : output_channels_(output_channels), stride_(stride) {}

  std::string kind() const override { return "padded shortcut"; }
  LayerTraits traits() const override { return {}; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = single_input(kind(), inputs, 4);
    if (output_channels_ < input[3])
      throw ShapeError(
          fmt::format("{} of {} to {} channels: cannot drop any", kind(), input.to_string(), output_channels_));
    return {input[0], (input[1] + stride_ - 1) / stride_, (input[2] + stride_ - 1) / stride_, output_channels_};
  }
  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const auto extent = [&](std::size_t axis) { return static_cast<std::size_t>(context.inputs[0][axis]); };
    return std::make_unique<PaddedShortcutPlan>(kernels::PaddedShortcutSpec{extent(0), extent(1), extent(2), extent(3),
                                                                            static_cast<std::size_t>(output_channels_),
                                                                            static_cast<std::size_t>(stride_)});
  }

 private:
  std::int64_t output_channels_;
  std::int64_t stride_;
};

}  // namespace

std::unique_ptr<Layer> padded_shortcut(std::int64_t output_channels, std::int64_t stride) {
  return std::make_unique<PaddedShortcut>(output_channels, stride);
}

}  // namespace dragonn::layers

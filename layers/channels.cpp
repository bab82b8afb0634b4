// SPDX-License-Identifier: MIT
/// Layers between the channels of images: concatenation, factors for whole channels, local response normalization.
#include "kernels/nn/channels.h"

#include <fmt/format.h>

#include "layers/layer.h"
#include "layers/layers.h"

namespace dragonn::layers {
namespace {

std::size_t extent(const Shape& shape, std::size_t axis) {
  return static_cast<std::size_t>(shape[axis]);
}

class Concatenate final : public Layer {
 public:
  std::string kind() const override { return "concatenate"; }
  LayerTraits traits() const override { return {.takes_bf16 = true}; }

  Shape output_shape(std::span<const Shape> inputs) const override {
    if (inputs.empty()) throw ShapeError(fmt::format("{} takes one input at least", kind()));
    std::int64_t channels = 0;
    for (const Shape& input : inputs) {
      if (input.rank() != 4 || input[1] != inputs[0][1] || input[2] != inputs[0][2])
        throw ShapeError(fmt::format("{} takes images of one size, not {} and {}", kind(), inputs[0].to_string(),
                                     input.to_string()));
      channels += input[3];
    }
    return {inputs[0][0], inputs[0][1], inputs[0][2], channels};
  }

  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    std::vector<kernels::ChannelCopy> copies;
    const std::size_t total = extent(context.output, 3);
    std::size_t first = 0;
    for (const Shape& input : context.inputs) {
      const std::size_t channels = extent(input, 3);
      copies.push_back({context.output.size() / total, channels, channels, 0, total, first});
      first += channels;
    }
    return layer_plan(
        [copies](const ForwardPass& pass) {
          for (std::size_t i = 0; i < copies.size(); ++i)
            kernels::copy_channels(copies[i], pass.inputs[i], pass.output);
        },
        [copies](const BackwardPass& pass) {
          for (std::size_t i = 0; i < copies.size(); ++i) {
            if (pass.input_gradients[i].empty()) continue;
            const kernels::ChannelCopy& of = copies[i];
            kernels::copy_channels(
                {of.pixels, of.channels, of.target_channels, of.target_first, of.source_channels, of.source_first},
                pass.output_gradients[0], pass.input_gradients[i]);
          }
        });
  }
};

class ScaleChannels final : public Layer {
 public:
  std::string kind() const override { return "scale channels"; }
  LayerTraits traits() const override { return {.backward_reads_inputs = true, .takes_bf16 = true}; }

  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape& input = first_input(kind(), inputs, 2);
    if (input.rank() != 4 || inputs[1] != Shape{input[0], input[3]})
      throw ShapeError(fmt::format("{} takes [batch, height, width, channels] and [batch, channels], not {} and {}",
                                   kind(), input.to_string(), inputs[1].to_string()));
    return input;
  }

  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const Shape& input = context.inputs[0];
    const kernels::ChannelScale shape{extent(input, 0), extent(input, 1) * extent(input, 2), extent(input, 3)};
    return layer_plan(
        [shape](const ForwardPass& pass) {
          kernels::scale_channels(shape, pass.inputs[0], pass.inputs[1], pass.output);
        },
        [shape](const BackwardPass& pass) {
          if (!pass.input_gradients[0].empty())
            kernels::scale_channels(shape, pass.output_gradients[0], pass.inputs[1], pass.input_gradients[0]);
          if (!pass.input_gradients[1].empty())
            kernels::channel_products(shape, pass.inputs[0], pass.output_gradients[0], pass.input_gradients[1]);
        });
  }
};

class LocalResponse final : public Layer {
 public:
  explicit LocalResponse(const LocalResponseSettings& settings) : settings_(settings) {
    if (settings.size < 1 || settings.size % 2 == 0)
      throw ConfigError(
          fmt::format("local response normalization over {} channels: an odd number is needed", settings.size));
  }

  std::string kind() const override { return fmt::format("local response normalization {}", settings_.size); }
  LayerTraits traits() const override { return {.backward_reads_inputs = true, .takes_bf16 = true}; }
  Shape output_shape(std::span<const Shape> inputs) const override { return single_input(kind(), inputs, 4); }

  std::unique_ptr<LayerPlan> plan(const PlanContext& context) const override {
    const Shape& input = context.inputs[0];
    return kernels::make_local_response_plan(
        context.device, {input[0], input[1], input[2], input[3], settings_.size, settings_.alpha, settings_.beta,
                         settings_.k, context.mode == Mode::kTrain});
  }

 private:
  LocalResponseSettings settings_;
};

}  // namespace

std::unique_ptr<Layer> concatenate() {
  return std::make_unique<Concatenate>();
}

std::unique_ptr<Layer> scale_channels() {
  return std::make_unique<ScaleChannels>();
}

std::unique_ptr<Layer> local_response(const LocalResponseSettings& settings) {
  return std::make_unique<LocalResponse>(settings);
}

}  // namespace dragonn::layers

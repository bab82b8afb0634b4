// SPDX-License-Identifier: MIT
/// AlexNet with one tower.
#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

constexpr std::int64_t kSmallestImage = 63;  // one pixel is left behind the last pooling

std::unique_ptr<LayerGraph> make_alexnet(const Settings& settings, const ModelContext& context) {
  require_image_side("alexnet", context, kSmallestImage);
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  NodeId last = LayerGraph::input();
  const auto add = [&](const std::string& name, Layer layer) { last = graph->add(name, std::move(layer), {last}); };
  const auto scaled = [&](std::int64_t channels) { return scaled_channels(channels, settings.number("width")); };
  const auto convolve = [&](const std::string& name, const kernels::Window& window, std::int64_t channels) {
    add(name, convolution({.outputs = scaled(channels),
                           .vertical = window,
                           .horizontal = window,
                           .bias = true,
                           .weight_init = WeightInit::kHeFanIn}));
    add(name + ".relu", activation(kernels::Activation::kRelu));
  };
  convolve("conv1", {11, 4, 2}, 64);
  if (settings.flag("local_response")) add("conv1.norm", local_response({}));
  add("conv1.pool", max_pooling({3, 2, 0}));
  convolve("conv2", {5, 1, 2}, 192);
  if (settings.flag("local_response")) add("conv2.norm", local_response({}));
  add("conv2.pool", max_pooling({3, 2, 0}));
  convolve("conv3", {3, 1, 1}, 384);
  convolve("conv4", {3, 1, 1}, 256);
  convolve("conv5", {3, 1, 1}, 256);
  add("conv5.pool", max_pooling({3, 2, 0}));
  add("flatten", flatten());
  for (const std::string name : {"linear1", "linear2"}) {
    last = add_dropout(*graph, name + ".dropout", settings.number("dropout"), last);
    add(name, linear({.outputs = scaled(4096), .weight_init = WeightInit::kHeFanIn}));
    add(name + ".relu", activation(kernels::Activation::kRelu));
  }
  add("output", linear({.outputs = context.classes}));
  return graph;
}

const Registration<ModelEntry> registration{
    {{"alexnet",
      "five convolutions and three linear layers, for images of at least 63 pixels",
      "arXiv:1404.5997, one tower",
      {SettingSpec::flag("local_response", false,
                         "local response normalization after the first two convolutions, as published in 2012"),
       SettingSpec::number("dropout", 0.0, "dropout rate in front of the first two linear layers; published: 0.5", 0,
                           0.99),
       width_setting()}},
     make_alexnet}};

}  // namespace
}  // namespace dragonn::layers

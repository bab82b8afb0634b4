// SPDX-License-Identifier: MIT
/// AlexNet with one tower.
#include <string>

#include "layers/graph.h"
#include "layers/layers.h"
#include "layers/models/model_shapes.h"

namespace dragonn::layers {
namespace {

constexpr std::int64_t kSmallestImage = 63;  // one pixel is left behind the last pooling

/// Adds convolutions and linear layers of one network, each with ReLU.
class AlexNet {
 public:
  AlexNet(LayerGraph& graph, const Settings& settings) : graph_(graph), settings_(settings) {}

  NodeId convolve(const std::string& name, NodeId input, const kernels::Window& window, std::int64_t channels) const {
    ConvolutionSettings settings;
    settings.outputs = scaled(channels);
    settings.vertical = settings.horizontal = window;
    settings.bias = true;
    settings.weight_init = WeightInit::kHeFanIn;
    const NodeId last = graph_.add(name, convolution(settings), {input});
    return graph_.add(name + ".relu", activation(kernels::Activation::kRelu), {last});
  }
  /// Adds the normalization, if asked, and the pooling of the first two convolutions.
  NodeId normalize_and_pool(const std::string& name, NodeId input) const {
    if (settings_.flag("local_response")) input = graph_.add(name + ".norm", local_response({}), {input});
    return pool(name, input);
  }
  NodeId pool(const std::string& name, NodeId input) const {
    return graph_.add(name + ".pool", max_pooling({3, 2, 0}), {input});
  }
  NodeId add_linear(const std::string& name, NodeId input, std::int64_t units) const {
    const double rate = settings_.number("dropout");
    if (rate > 0) input = graph_.add(name + ".dropout", dropout(rate), {input});
    LinearSettings settings{.outputs = scaled(units)};
    settings.weight_init = WeightInit::kHeFanIn;
    const NodeId last = graph_.add(name, linear(settings), {input});
    return graph_.add(name + ".relu", activation(kernels::Activation::kRelu), {last});
  }

 private:
  std::int64_t scaled(std::int64_t channels) const { return scaled_channels(channels, settings_.number("width")); }

  LayerGraph& graph_;
  const Settings& settings_;
};

std::unique_ptr<LayerGraph> make_alexnet(const Settings& settings, const ModelContext& context) {
  require_image_side("alexnet", context, kSmallestImage);
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  const AlexNet net(*graph, settings);
  NodeId last = net.convolve("conv1", LayerGraph::input(), {11, 4, 2}, 64);
  last = net.normalize_and_pool("conv1", last);
  last = net.convolve("conv2", last, {5, 1, 2}, 192);
  last = net.normalize_and_pool("conv2", last);
  last = net.convolve("conv3", last, {3, 1, 1}, 384);
  last = net.convolve("conv4", last, {3, 1, 1}, 256);
  last = net.convolve("conv5", last, {3, 1, 1}, 256);
  last = net.pool("conv5", last);
  last = graph->add("flatten", flatten(), {last});
  last = net.add_linear("linear1", last, 4096);
  last = net.add_linear("linear2", last, 4096);
  graph->add("output", linear({.outputs = context.classes}), {last});
  return graph;
}

SettingSpecs settings() {
  return {SettingSpec::flag("local_response", false,
                            "local response normalization after the first two convolutions, as published in 2012"),
          SettingSpec::number("dropout", 0.0, "dropout rate in front of the first two linear layers; published: 0.5", 0,
                              0.99),
          width_setting()};
}

const Registration<ModelEntry> registration{
    {{"alexnet", "five convolutions and three linear layers, for images of at least 63 pixels",
      "arXiv:1404.5997, one tower", settings()},
     make_alexnet}};

}  // namespace
}  // namespace dragonn::layers

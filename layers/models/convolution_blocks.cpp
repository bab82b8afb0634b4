// SPDX-License-Identifier: MIT
#include "layers/models/convolution_blocks.h"

#include <algorithm>

#include "layers/models/model_shapes.h"

namespace dragonn::layers {

NodeId FilterBuilder::add(const std::string& name, NodeId input, const Filter& filter) const {
  ConvolutionSettings settings;
  settings.outputs = scaled_channels(filter.channels, settings_.width);
  settings.vertical = {filter.height, filter.stride, filter.padded ? filter.height / 2 : 0};
  settings.horizontal = {filter.width, filter.stride, filter.padded ? filter.width / 2 : 0};
  settings.bias = settings_.bias;
  const NodeId last = graph_.add(name + ".conv", convolution(settings), {input});
  return graph_.add(name + ".bn", batch_norm({.relu = true, .epsilon = settings_.epsilon}), {last});
}

NodeId FilterBuilder::add_branch(const std::string& name, NodeId input, const std::vector<Filter>& filters) const {
  int number = 0;
  for (const Filter& filter : filters) input = add(name + "." + std::to_string(++number), input, filter);
  return input;
}

NodeId add_excitation(LayerGraph& graph, NodeId input, const std::string& name) {
  constexpr std::int64_t kReduction = 16;
  const std::int64_t channels = graph.nodes()[input].output[3];
  const auto settings = [](std::int64_t outputs) {
    LinearSettings linear{.outputs = outputs};
    linear.bias_init = BiasInit::kFanInUniform;
    return linear;
  };
  NodeId last = graph.add(name + ".pool", global_average_pooling(), {input});
  last = graph.add(name + ".flatten", flatten(), {last});
  const std::int64_t squeezed = std::max<std::int64_t>(1, channels / kReduction);
  last = graph.add(name + ".linear1", linear(settings(squeezed)), {last});
  last = graph.add(name + ".relu", activation(kernels::Activation::kRelu), {last});
  last = graph.add(name + ".linear2", linear(settings(channels)), {last});
  last = graph.add(name + ".sigmoid", activation(kernels::Activation::kSigmoid), {last});
  return graph.add(name + ".scale", scale_channels(), {input, last});
}

}  // namespace dragonn::layers

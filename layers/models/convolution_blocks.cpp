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

namespace {

/// The ratio of the output's channels to those inside a bottleneck.
constexpr std::int64_t kBottleneck = 4;

NodeId add_shortcut(LayerGraph& graph, NodeId input, const ResidualBlock& block) {
  const Shape& shape = graph.nodes()[input].output;
  if (block.stride == 1 && shape[3] == block.channels) return input;
  if (block.shortcut == Shortcut::kPad)
    return graph.add(block.name + ".shortcut", padded_shortcut(block.channels, block.stride), {input});
  ConvolutionSettings projection = square_convolution(block.channels, 1, block.stride, 0);
  projection.weight_init = block.weight_init;
  const NodeId projected = graph.add(block.name + ".shortcut.conv", convolution(projection), {input});
  return graph.add(block.name + ".shortcut.bn", batch_norm({}), {projected});
}

/// Adds the convolution with this number in a block.
NodeId add_convolution(LayerGraph& graph, NodeId input, const ResidualBlock& block, int number,
                       ConvolutionSettings settings) {
  settings.weight_init = block.weight_init;
  return graph.add(block.name + ".conv" + std::to_string(number), convolution(settings), {input});
}

NodeId add_activated(LayerGraph& graph, NodeId input, const ResidualBlock& block, int number,
                     const ConvolutionSettings& settings) {
  const NodeId last = add_convolution(graph, input, block, number, settings);
  return graph.add(block.name + ".bn" + std::to_string(number), batch_norm({.relu = true}), {last});
}

/// Adds the block's last convolution, and the sum with the block's input.
NodeId add_sum(LayerGraph& graph, NodeId input, NodeId inner, const ResidualBlock& block, int number,
               const ConvolutionSettings& settings) {
  const NodeId last = add_convolution(graph, inner, block, number, settings);
  const NodeId shortcut = add_shortcut(graph, input, block);
  return graph.add(block.name + ".bn" + std::to_string(number), batch_norm({.relu = true, .residual = true}),
                   {last, shortcut});
}

}  // namespace

NodeId add_residual_block(LayerGraph& graph, NodeId input, const ResidualBlock& block) {
  const NodeId last = add_activated(graph, input, block, 1, square_convolution(block.channels, 3, block.stride, 1));
  return add_sum(graph, input, last, block, 2, square_convolution(block.channels, 3, 1, 1));
}

NodeId add_bottleneck_block(LayerGraph& graph, NodeId input, const ResidualBlock& block) {
  const std::int64_t inner = block.channels / kBottleneck;
  NodeId last = add_activated(graph, input, block, 1, square_convolution(inner, 1, 1, 0));
  last = add_activated(graph, last, block, 2, square_convolution(inner, 3, block.stride, 1));
  return add_sum(graph, input, last, block, 3, square_convolution(block.channels, 1, 1, 0));
}

NodeId add_stem(LayerGraph& graph, const ConvolutionSettings& settings) {
  const NodeId last = graph.add("stem.conv", convolution(settings), {LayerGraph::input()});
  return graph.add("stem.bn", batch_norm({.relu = true}), {last});
}

void add_classifier(LayerGraph& graph, NodeId input, std::int64_t classes, WeightInit weight_init,
                    double dropout_rate) {
  NodeId last = graph.add("pool", global_average_pooling(), {input});
  last = graph.add("flatten", flatten(), {last});
  if (dropout_rate > 0) last = graph.add("dropout", dropout(dropout_rate), {last});
  LinearSettings output{.outputs = classes};
  output.weight_init = weight_init;
  output.bias_init = BiasInit::kFanInUniform;
  graph.add("output", linear(output), {last});
}

}  // namespace dragonn::layers

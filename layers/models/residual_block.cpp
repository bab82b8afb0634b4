// SPDX-License-Identifier: MIT
#include "layers/models/residual_block.h"

namespace dragonn::layers {
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

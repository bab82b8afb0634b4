// SPDX-License-Identifier: MIT
#include "layers/models/residual_block.h"

namespace dragonn::layers {
namespace {

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

}  // namespace

NodeId add_residual_block(LayerGraph& graph, NodeId input, const ResidualBlock& block) {
  ConvolutionSettings first = square_convolution(block.channels, 3, block.stride, 1);
  ConvolutionSettings second = square_convolution(block.channels, 3, 1, 1);
  first.weight_init = second.weight_init = block.weight_init;
  NodeId last = graph.add(block.name + ".conv1", convolution(first), {input});
  last = graph.add(block.name + ".bn1", batch_norm({.relu = true}), {last});
  last = graph.add(block.name + ".conv2", convolution(second), {last});
  const NodeId shortcut = add_shortcut(graph, input, block);
  return graph.add(block.name + ".bn2", batch_norm({.relu = true, .residual = true}), {last, shortcut});
}

NodeId add_stem(LayerGraph& graph, const ConvolutionSettings& settings) {
  const NodeId last = graph.add("stem.conv", convolution(settings), {LayerGraph::input()});
  return graph.add("stem.bn", batch_norm({.relu = true}), {last});
}

void add_classifier(LayerGraph& graph, NodeId input, std::int64_t classes, WeightInit weight_init) {
  NodeId last = graph.add("pool", global_average_pooling(), {input});
  last = graph.add("flatten", flatten(), {last});
  LinearSettings output{.outputs = classes};
  output.weight_init = weight_init;
  output.bias_init = BiasInit::kFanInUniform;
  graph.add("output", linear(output), {last});
}

}  // namespace dragonn::layers

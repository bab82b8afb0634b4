// SPDX-License-Identifier: MIT
#include "layers/models/transformer_block.h"

#include "core/error.h"

namespace dragonn::layers {
namespace {

std::int64_t width_of(const LayerGraph& graph, NodeId node) {
  const Shape& shape = graph.nodes()[node].output;
  return shape[shape.rank() - 1];
}

NodeId add_attention(LayerGraph& graph, NodeId input, const TransformerBlock& block) {
  const std::int64_t width = width_of(graph, input);
  const std::string name = block.name + ".attention";
  NodeId last = graph.add(name + ".qkv", linear(transformer_linear(3 * width)), {input});
  last = graph.add(name, attention(block.heads, false), {last});
  return graph.add(name + ".output", linear(transformer_linear(width)), {last});
}

/// Adds one of a block's two parts, with its layer norm and residual connection.
template <class Part>
NodeId add_residual_part(LayerGraph& graph, NodeId input, const TransformerBlock& block, const std::string& name,
                         const Part& part) {
  const NodeId from = block.norm_first ? graph.add(name + ".norm", layer_norm(), {input}) : input;
  NodeId last = part(from);
  if (block.dropout > 0) last = graph.add(name + ".dropout", dropout(block.dropout), {last});
  last = graph.add(name + ".sum", residual_add(false), {last, input});
  return block.norm_first ? last : graph.add(name + ".norm", layer_norm(), {last});
}

}  // namespace

LinearSettings transformer_linear(std::int64_t outputs) {
  LinearSettings settings{.outputs = outputs};
  settings.weight_init = WeightInit::kXavierUniform;
  return settings;
}

NodeId add_feed_forward(LayerGraph& graph, NodeId input, const std::string& name, std::int64_t units) {
  NodeId last = graph.add(name + ".linear1", linear(transformer_linear(units)), {input});
  last = graph.add(name + ".gelu", activation(kernels::Activation::kGelu), {last});
  return graph.add(name + ".linear2", linear(transformer_linear(width_of(graph, input))), {last});
}

NodeId add_transformer_block(LayerGraph& graph, NodeId input, const TransformerBlock& block) {
  const NodeId attended = add_residual_part(graph, input, block, block.name + ".part1",
                                            [&](NodeId from) { return add_attention(graph, from, block); });
  return add_residual_part(graph, attended, block, block.name + ".part2", [&](NodeId from) {
    return add_feed_forward(graph, from, block.name + ".feed_forward", block.feed_forward);
  });
}

NodeId add_patches(LayerGraph& graph, std::int64_t patch, std::int64_t width) {
  ConvolutionSettings settings;
  settings.outputs = width;
  settings.vertical = settings.horizontal = {patch, patch, 0, true};
  settings.bias = true;
  settings.weight_init = WeightInit::kXavierUniform;
  const NodeId pixels = graph.add("patches", convolution(settings), {LayerGraph::input()});
  return graph.add("steps", merge_pixels(), {pixels});
}

void add_step_classifier(LayerGraph& graph, NodeId input, std::int64_t classes) {
  NodeId last = graph.add("norm", layer_norm(), {input});
  last = graph.add("pixels", steps_to_pixels(), {last});
  last = graph.add("pool", global_average_pooling(), {last});
  last = graph.add("flatten", flatten(), {last});
  graph.add("output", linear(transformer_linear(classes)), {last});
}

void require_heads(std::string_view model, std::int64_t width, std::int64_t heads) {
  if (width % heads != 0)
    throw ConfigError(fmt::format("model {}: hidden = {} must be a multiple of heads = {}", model, width, heads));
}

}  // namespace dragonn::layers

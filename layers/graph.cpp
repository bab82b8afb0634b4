// SPDX-License-Identifier: MIT
#include "layers/graph.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace dragonn::layers {
namespace {

/// Returns the image of which the last axis of a node's output is a flattening (Node::image). The node is complete but
/// for it. Only a flattening of [batch, height, width, channels] depends on where the channels are. Layers without
/// weights treat every feature alike, so they keep the order of their first input.
Shape image_of(const Node& node, const std::vector<ParameterSpec>& parameters, const Node& input) {
  constexpr std::size_t kImageAxes = 4;
  const std::size_t last = node.output.rank() - 1;
  if (node.traits.is_view && input.output.rank() == kImageAxes && last < kImageAxes - 1) {
    const Shape merged(input.output.extents().subspan(last));
    return static_cast<std::int64_t>(merged.size()) == node.output[last] ? merged : Shape();
  }
  const bool has_weights =
      std::ranges::any_of(node.parameters, [&](std::size_t index) { return is_weight(parameters[index].role); });
  return !has_weights && node.output == input.output ? input.image : Shape();
}

}  // namespace

Shape batched(const Shape& sample, std::int64_t batch) {
  std::vector<std::int64_t> extents{batch};
  extents.insert(extents.end(), sample.extents().begin(), sample.extents().end());
  return Shape(extents);
}

LayerGraph::LayerGraph(const Shape& sample_shape) : sample_shape_(sample_shape), loss_(softmax_cross_entropy_loss()) {
  Node input;
  input.name = "input";
  input.output = batched(sample_shape, 1);
  nodes_.push_back(std::move(input));
}

NodeId LayerGraph::add(const std::string& name, std::shared_ptr<const Layer> layer, std::vector<NodeId> inputs,
                       std::optional<NodeId> tied_to) {
  Node node;
  node.name = name;
  node.tied_to = tied_to;
  node.traits = layer->traits;
  for (NodeId input : inputs) {
    DRAGONN_CHECK(input < nodes_.size(), "layer {} reads node {} of {}", name, input, nodes_.size());
    node.input_shapes.push_back(nodes_[input].output);
  }
  try {
    node.output = layer->output_shape(node.input_shapes);
  } catch (const ShapeError& error) {
    throw ShapeError(fmt::format("layer {}: {}", name, error.what()));
  }
  for (ParameterSpec& spec : layer->parameters(node.input_shapes))
    node.parameters.push_back(parameter(name, std::move(spec), tied_to));
  for (StatisticsSpec& spec : layer->statistics(node.input_shapes)) {
    node.statistics.push_back(statistics_.size());
    spec.name = name + "." + spec.name;
    statistics_.push_back(std::move(spec));
  }
  for (const StateSpec& spec : layer->states) {
    node.states.push_back(states_.size());
    states_.push_back(spec);
  }
  if (!inputs.empty()) node.image = image_of(node, parameters_, nodes_[inputs[0]]);
  node.inputs = std::move(inputs);
  node.layer = std::move(layer);
  nodes_.push_back(std::move(node));
  return nodes_.size() - 1;
}

LayerGraph LayerGraph::with_steps(std::int64_t steps) const {
  LayerGraph graph(sample_shape_.with_batch(steps));
  for (NodeId id = 1; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    graph.nodes_[graph.add(node.name, node.layer, node.inputs, node.tied_to)].block = node.block;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (graph.parameters_[i].shape != parameters_[i].shape)
      throw ShapeError(fmt::format("a network of {} takes no samples of {} steps: parameter {} depends on them",
                                   sample_shape_.to_string(), steps, parameters_[i].name));
  graph.set_loss(loss_, chunk_rows_);
  return graph;
}

std::size_t LayerGraph::classes() const {
  std::int64_t classes = nodes_.back().output.extents().back();
  for (std::size_t parameter : nodes_.back().parameters) classes -= parameters_[parameter].padding;
  return static_cast<std::size_t>(classes);
}

void LayerGraph::make_block(NodeId first) {
  ++blocks_;
  for (NodeId id = first; id < nodes_.size(); ++id) nodes_[id].block = blocks_;
}

std::size_t LayerGraph::parameter(const std::string& layer, ParameterSpec spec, std::optional<NodeId> tied_to) {
  if (tied_to) {
    const Node& owner = nodes_.at(*tied_to);
    const std::string name = owner.name + "." + spec.name;
    for (std::size_t index : owner.parameters)
      if (parameters_[index].name == name && parameters_[index].shape == spec.shape) return index;
  }
  spec.name = layer + "." + spec.name;
  parameters_.push_back(std::move(spec));
  return parameters_.size() - 1;
}

std::vector<bool> LayerGraph::gradient_needs(bool input) const {
  std::vector<bool> needs(nodes_.size());
  needs[0] = input;
  for (NodeId id = 1; id < nodes_.size(); ++id)
    needs[id] = !nodes_[id].parameters.empty() ||
                std::ranges::any_of(nodes_[id].inputs, [&](NodeId source) { return needs[source]; });
  return needs;
}

std::vector<ParameterRole> LayerGraph::roles() const {
  std::vector<ParameterRole> roles;
  for (const ParameterSpec& spec : parameters_) roles.push_back(spec.role);
  const std::vector<bool> is_trained = gradient_needs(false);
  std::vector<bool> has_successor(nodes_.size());  // some layer with parameters lies behind the node
  for (NodeId id = nodes_.size(); id-- > 1;) {
    const Node& node = nodes_[id];
    const bool has_predecessor = std::ranges::any_of(node.inputs, [&](NodeId source) { return is_trained[source]; });
    for (const std::size_t index : node.parameters)
      if (roles[index] == ParameterRole::kHiddenMatrix && !(has_predecessor && has_successor[id]))
        roles[index] = ParameterRole::kWeight;
    for (const NodeId source : node.inputs)
      if (has_successor[id] || !node.parameters.empty()) has_successor[source] = true;
  }
  return roles;
}

double LayerGraph::training_flops() const {
  const std::vector<double> backward = backward_flops();
  double total = 0;
  for (NodeId id = 1; id < nodes_.size(); ++id)
    total += nodes_[id].layer->forward_flops(nodes_[id].input_shapes) + backward[id];
  return total;
}

std::vector<double> LayerGraph::backward_flops() const {
  const std::vector<bool> needs = gradient_needs(false);
  std::vector<double> flops(nodes_.size());
  for (NodeId id = 1; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    const bool input_gradient = std::ranges::any_of(node.inputs, [&](NodeId source) { return needs[source]; });
    flops[id] = node.layer->forward_flops(node.input_shapes) * (input_gradient ? 2 : 1);
  }
  return flops;
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
#include "layers/graph_schedule.h"

#include <algorithm>
#include <numeric>

#include "kernels/nn/plan.h"

namespace dragonn::layers {

using Block = MemoryPlanner::Block;

Block MemoryPlanner::add(std::size_t floats, std::size_t first, std::size_t last) {
  blocks_.push_back({kernels::aligned_floats(floats), first, last, 0});
  return blocks_.size() - 1;
}

void MemoryPlanner::extend(Block block, std::size_t time) {
  Extent& extent = blocks_[block];
  extent.first = std::min(extent.first, time);
  extent.last = std::max(extent.last, time);
}

void MemoryPlanner::place() {
  std::vector<Block> by_size(blocks_.size());
  std::iota(by_size.begin(), by_size.end(), Block{0});
  std::ranges::stable_sort(by_size, [&](Block a, Block b) { return blocks_[a].size > blocks_[b].size; });
  std::vector<Block> placed;  // ascending offset
  for (Block block : by_size) {
    Extent& extent = blocks_[block];
    for (Block other : placed) {
      const Extent& neighbour = blocks_[other];
      if (!extent.overlaps_in_time(neighbour)) continue;
      if (extent.offset + extent.size <= neighbour.offset) break;
      extent.offset = std::max(extent.offset, neighbour.offset + neighbour.size);
    }
    total_ = std::max(total_, extent.offset + extent.size);
    placed.insert(std::ranges::upper_bound(placed, extent.offset, {}, [&](Block b) { return blocks_[b].offset; }),
                  block);
  }
}

std::size_t MemoryPlanner::live_at(std::size_t time) const {
  std::size_t floats = 0;
  for (const Extent& extent : blocks_)
    if (extent.first <= time && time <= extent.last) floats += extent.size;
  return floats;
}

std::vector<kernels::ElementType> element_types(const LayerGraph& graph, kernels::ElementType type) {
  const std::vector<Node>& nodes = graph.nodes();
  std::vector<bool> shows_input(nodes.size());  // the network's input, or a view of it
  bool tokens = false;
  for (NodeId id = 0; id < nodes.size(); ++id) {
    const Node& node = nodes[id];
    shows_input[id] = id == LayerGraph::input() || (node.traits.is_view && shows_input[node.inputs[0]]);
    tokens = tokens || (node.traits.takes_tokens && shows_input[node.inputs[0]]);
  }
  std::vector<kernels::ElementType> types(nodes.size(), type);
  for (NodeId id = 0; id < nodes.size(); ++id)
    if (tokens && shows_input[id]) types[id] = kernels::ElementType::kFloat32;
  return types;
}

GraphSchedule::GraphSchedule(const LayerGraph& graph, std::size_t batch, Mode mode, bool input_gradient,
                             std::span<const kernels::PlanMemory> memory, std::span<const kernels::ElementType> types)
    : graph_(graph),
      batch_(batch),
      training_(mode == Mode::kTrain),
      types_(types.begin(), types.end()),
      gradient_needs_(graph.gradient_needs(input_gradient)),
      consumers_(graph.nodes().size()),
      nodes_(graph.nodes().size()) {
  if (!training_) gradient_needs_.assign(graph.nodes().size(), false);
  for (const Node& node : graph.nodes())
    for (NodeId input : node.inputs) ++consumers_[input];
  for (NodeId id = 0; id < graph.output(); ++id)
    DRAGONN_CHECK(consumers_[id] > 0, "nothing reads the output of layer {}", graph.nodes()[id].name);
  place_activations();
  place_plan_memory(memory);
  if (training_) {
    place_gradients();
    schedule_parameters();
  }
  planner_.place();
}

/// Places the outputs. A value lives from its forward to the last pass that reads it. Views share their input's block;
/// so does a layer that works in place, if it is the last to read its input.
void GraphSchedule::place_activations() {
  const std::vector<Node>& nodes = graph_.nodes();
  std::vector<NodeId> value(nodes.size());  // the node whose output a view shows, through any number of views
  std::vector<std::size_t> last(nodes.size());
  for (NodeId id = 0; id < nodes.size(); ++id) {
    const Node& node = nodes[id];
    value[id] = node.traits.is_view ? value[node.inputs[0]] : id;
    const auto read_at = [&](NodeId read, std::size_t time) { last[value[read]] = std::max(last[value[read]], time); };
    read_at(id, id);
    if (gradient_needs_[id] && node.traits.backward_reads_output) read_at(id, backward_time(id));
    for (NodeId input : node.inputs) {
      read_at(input, id);
      if (gradient_needs_[id] && node.traits.backward_reads_inputs) read_at(input, backward_time(id));
    }
  }
  last[value[graph_.output()]] = end_time();  // the caller may read the logits until the next pass

  for (NodeId id = 0; id < nodes.size(); ++id) {
    const Node& node = nodes[id];
    const bool in_place = node.traits.forward_in_place && last[value[node.inputs[0]]] == id;
    if (node.traits.is_view || in_place) {
      nodes_[id].output = nodes_[node.inputs[0]].output;
      planner_.extend(nodes_[id].output, last[value[id]]);
    } else {
      nodes_[id].output = planner_.add(floats(id), id, last[id]);
    }
  }
  const std::size_t input_size = nodes[LayerGraph::input()].output.size() * batch_;
  const bool rounds = types_[LayerGraph::input()] != kernels::ElementType::kFloat32;
  input_ = rounds ? planner_.add(input_size, 0, 0) : nodes_[LayerGraph::input()].output;
}

void GraphSchedule::place_plan_memory(std::span<const kernels::PlanMemory> memory) {
  for (NodeId id = 1; id < nodes_.size(); ++id) {
    nodes_[id].saved = planner_.add(memory[id].saved, id, gradient_needs_[id] ? backward_time(id) : id);
    nodes_[id].forward_scratch = planner_.add(memory[id].forward_scratch, id, id);
    if (gradient_needs_[id])
      nodes_[id].backward_scratch = planner_.add(memory[id].backward_scratch, backward_time(id), backward_time(id));
  }
}

void GraphSchedule::place_gradients() {
  const NodeId output = graph_.output();
  loss_gradient_ = planner_.add(floats(output), nodes_.size(), backward_time(output));
  nodes_[output].output_gradients = {loss_gradient_};
  for (NodeId id = output; id > 0; --id) {
    NodeSchedule& node = nodes_[id];
    node.runs_backward = gradient_needs_[id];
    node.input_gradients.assign(graph_.nodes()[id].inputs.size(), kNoBlock);
    if (!node.runs_backward) continue;
    for (std::size_t input = 0; input < node.input_gradients.size(); ++input) {
      const NodeId source = graph_.nodes()[id].inputs[input];
      if (!gradient_needs_[source]) continue;
      node.input_gradients[input] = place_input_gradient(id, input);
      contribute(id, source, node.input_gradients[input]);
    }
  }
}

/// Returns the block of an output gradient that the layer may overwrite, or a new one.
Block GraphSchedule::place_input_gradient(NodeId id, std::size_t input) {
  const Node& node = graph_.nodes()[id];
  const std::vector<Block>& gradients = nodes_[id].output_gradients;
  const std::size_t from_last = node.inputs.size() - 1 - input;
  if ((node.traits.backward_in_place || node.traits.is_view) && from_last < gradients.size())
    return gradients[from_last];
  return planner_.add(floats(node.inputs[input]), backward_time(id), backward_time(id));
}

/// Records that node `from` has written a gradient of `to`'s output. The first one stays until `to` runs backward.
/// Others are added to it at once, unless there are two and `to` sums them itself.
void GraphSchedule::contribute(NodeId from, NodeId to, Block gradient) {
  std::vector<Block>& gradients = nodes_[to].output_gradients;
  const bool keep = gradients.empty() || (graph_.nodes()[to].traits.sums_output_gradients && consumers_[to] == 2);
  if (keep) {
    gradients.push_back(gradient);
    planner_.extend(gradient, backward_time(to));
  } else {
    nodes_[from].sums.push_back({gradients[0], gradient, to});
  }
}

/// Schedules the parameters' gradients. Backward visits the nodes in descending order: a parameter's first contributor
/// overwrites the arena's gradient, the others add, and after the last it is final.
void GraphSchedule::schedule_parameters() {
  std::vector<bool> seen(graph_.parameters().size());
  for (NodeId id = graph_.output(); id > 0; --id) {
    for (std::size_t parameter : graph_.nodes()[id].parameters) {
      const std::size_t size = graph_.parameters()[parameter].shape.size();
      nodes_[id].parameter_gradients.push_back(
          seen[parameter] ? planner_.add(size, backward_time(id), backward_time(id)) : kNoBlock);
      seen[parameter] = true;
    }
  }
  seen.assign(seen.size(), false);
  for (NodeId id = 1; id < nodes_.size(); ++id) {
    for (std::size_t parameter : graph_.nodes()[id].parameters) {
      if (!seen[parameter]) nodes_[id].ready.push_back(parameter);
      seen[parameter] = true;
    }
  }
}

Block GraphSchedule::input_gradient() const {
  return nodes_[0].output_gradients.empty() ? kNoBlock : nodes_[0].output_gradients[0];
}

std::size_t GraphSchedule::kept_floats() const {
  const std::size_t loss = loss_gradient_ == kNoBlock ? 0 : planner_.size(loss_gradient_);
  return planner_.live_at(nodes_.size()) - loss;
}

}  // namespace dragonn::layers

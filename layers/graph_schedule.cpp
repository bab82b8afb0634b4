// SPDX-License-Identifier: MIT
#include "layers/graph_schedule.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/choice.h"
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

std::size_t MemoryPlanner::live_during(std::size_t first, std::size_t last) const {
  std::size_t floats = 0;
  for (const Extent& extent : blocks_)
    if (extent.first <= first && last <= extent.last) floats += extent.size;
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

void check_recompute(const LayerGraph& graph, Recompute recompute) {
  bool found = recompute == Recompute::kNone;
  for (const Node& node : graph.nodes()) {
    if (recompute == Recompute::kElementwise && node.traits.is_cheap) found = true;
    if (recompute != Recompute::kBlock || node.block == 0) continue;
    found = true;
    if (!node.statistics.empty() || !node.states.empty())
      throw ConfigError(
          fmt::format("train.recompute = \"block\": layer {} ({}) has state, which a second forward pass "
                      "would change; expected \"none\" or \"elementwise\"",
                      node.name, node.layer->kind));
  }
  if (!found)
    throw ConfigError(fmt::format("train.recompute = \"{}\": the network has no {}; expected \"none\"",
                                  name_of(recompute),
                                  recompute == Recompute::kBlock ? "blocks" : "layer norm or GELU"));
}

std::size_t output_rows(const LayerGraph& graph, std::size_t batch) {
  return graph.nodes().back().output.size() / graph.columns() * batch;
}

std::size_t chunk_rows(const LayerGraph& graph, std::size_t batch) {
  constexpr std::size_t kRowsMultiple = 8;  // so many rows of bf16 are aligned, whatever their width
  if (graph.chunk_rows() == 0) return 0;
  const std::size_t rows = output_rows(graph, batch), chunks = (rows + graph.chunk_rows() - 1) / graph.chunk_rows();
  return std::min(graph.chunk_rows(),
                  ((rows + chunks - 1) / chunks + kRowsMultiple - 1) / kRowsMultiple * kRowsMultiple);
}

namespace {

/// Returns, by node, the one whose output it shows as a view, through any number of views, or itself.
std::vector<NodeId> sources(const LayerGraph& graph) {
  std::vector<NodeId> shown(graph.nodes().size());
  for (NodeId id = 0; id < shown.size(); ++id)
    shown[id] = graph.nodes()[id].traits.is_view ? shown[graph.nodes()[id].inputs[0]] : id;
  return shown;
}

}  // namespace

GraphSchedule::GraphSchedule(const LayerGraph& graph, std::size_t batch, Mode mode, bool input_gradient,
                             std::span<const kernels::PlanMemory> memory, std::span<const kernels::ElementType> types,
                             Recompute recompute)
    : graph_(graph),
      batch_(batch),
      chunk_rows_(layers::chunk_rows(graph, batch)),
      training_(mode == Mode::kTrain),
      types_(types.begin(), types.end()),
      gradient_needs_(graph.gradient_needs(input_gradient)),
      source_(sources(graph)),
      again_time_(graph.nodes().size(), kNever),
      backward_time_(graph.nodes().size(), kNever),
      consumers_(graph.nodes().size()),
      nodes_(graph.nodes().size()) {
  if (!training_) gradient_needs_.assign(graph.nodes().size(), false);
  for (const Node& node : graph.nodes())
    for (NodeId input : node.inputs) ++consumers_[input];
  for (NodeId id = 0; id < graph.output(); ++id)
    DRAGONN_CHECK(consumers_[id] > 0, "nothing reads the output of layer {}", graph.nodes()[id].name);
  order_passes(recompute);
  place_activations();
  place_plan_memory(memory);
  if (training_) {
    place_gradients();
    schedule_parameters();
  }
  planner_.place();
}

std::size_t GraphSchedule::elements(NodeId node) const {
  return runs_in_chunks(node) ? chunk_rows_ * graph_.columns() : graph_.nodes()[node].output.size() * batch_;
}

/// Returns, by node, the values that are dropped between forward and backward. The caller reads the logits: they stay,
/// or, if the loss runs in chunks, what the last layer computes them from.
std::vector<bool> GraphSchedule::dropped_values(Recompute recompute) const {
  const std::vector<Node>& nodes = graph_.nodes();
  std::vector<bool> dropped(nodes.size());
  if (!training_ || recompute == Recompute::kNone) return dropped;
  for (NodeId id = 1; id < nodes.size(); ++id)
    if (source_[id] == id)
      dropped[id] = recompute == Recompute::kBlock ? nodes[id].block > 0 : nodes[id].traits.is_cheap;
  if (recompute == Recompute::kBlock)
    for (NodeId id = 1; id < nodes.size(); ++id)
      for (NodeId input : nodes[id].inputs)
        if (nodes[id].block != nodes[source_[input]].block) dropped[source_[input]] = false;
  const NodeId output = graph_.output();
  dropped[source_[chunk_rows_ > 0 ? nodes[output].inputs[0] : output]] = false;
  return dropped;
}

/// Sets the order of the passes behind the loss, and their times.
void GraphSchedule::order_passes(Recompute recompute) {
  const std::vector<Node>& nodes = graph_.nodes();
  const std::vector<bool> dropped = dropped_values(recompute);
  const auto next_time = [&] { return loss_time() + later_passes_.size() + 1; };
  const std::function<void(NodeId)> require_value = [&](NodeId id) {
    const NodeId source = source_[id];
    if (!dropped[source] || again_time_[source] != kNever) return;
    for (NodeId input : nodes[source].inputs) require_value(input);
    again_time_[source] = next_time();
    later_passes_.push_back({source, true});
  };
  for (NodeId id = graph_.output(); id > 0; --id) {
    if (!gradient_needs_[id]) continue;
    if (nodes[id].traits.backward_reads_output) require_value(id);
    if (nodes[id].traits.backward_reads_inputs)
      for (NodeId input : nodes[id].inputs) require_value(input);
    backward_time_[id] = runs_in_chunks(id) ? loss_time() : next_time();
    later_passes_.push_back({id, false});
  }
  backward_time_[LayerGraph::input()] = end_time();  // the caller may read its gradient
}

Block GraphSchedule::value(NodeId node, std::size_t time) const {
  const NodeSchedule& source = nodes_[source_[node]];
  return time < again_time_[source_[node]] ? source.forward.output : source.again.output;
}

/// Places the outputs. A value lives from its forward to the last pass that reads it. Views share their input's block;
/// so does a layer that works in place, if it is the last to read its input.
void GraphSchedule::place_activations() {
  const std::vector<Node>& nodes = graph_.nodes();
  std::vector<std::size_t> last(nodes.size()), last_again(nodes.size());  // the ends of the first and the second life
  const auto end_at = [&](NodeId id, std::size_t time) -> std::size_t& {
    return (time < again_time_[source_[id]] ? last : last_again)[source_[id]];
  };
  const auto read_at = [&](NodeId id, std::size_t time) { end_at(id, time) = std::max(end_at(id, time), time); };
  for (NodeId id = 0; id < nodes.size(); ++id) {
    const Node& node = nodes[id];
    for (const std::size_t time : {forward_time(id), again_time_[id]}) {
      if (time == kNever) continue;
      read_at(id, time);
      for (NodeId input : node.inputs) read_at(input, time);
    }
    if (!gradient_needs_[id]) continue;
    if (node.traits.backward_reads_output) read_at(id, backward_time(id));
    if (node.traits.backward_reads_inputs)
      for (NodeId input : node.inputs) read_at(input, backward_time(id));
  }
  // The caller may ask for the logits until the next pass.
  const NodeId output = graph_.output();
  last[source_[chunk_rows_ > 0 ? nodes[output].inputs[0] : output]] = end_time();

  const auto place = [&](NodeId id, std::size_t time) {
    const Node& node = nodes[id];
    const bool in_place = node.traits.forward_in_place && end_at(node.inputs[0], time) == time;
    if (!node.traits.is_view && !in_place) return planner_.add(floats(id), time, end_at(id, time));
    const Block block = value(node.inputs[0], time);
    planner_.extend(block, end_at(id, time));
    return block;
  };
  for (NodeId id = 0; id < nodes.size(); ++id) nodes_[id].forward.output = place(id, forward_time(id));
  for (const LaterPass& pass : later_passes_)
    if (pass.is_forward) nodes_[pass.node].again.output = place(pass.node, again_time_[pass.node]);
  const std::size_t input_size = nodes[LayerGraph::input()].output.size() * batch_;
  const bool rounds = types_[LayerGraph::input()] != kernels::ElementType::kFloat32;
  input_ = rounds ? planner_.add(input_size, 0, 0) : nodes_[LayerGraph::input()].forward.output;
}

void GraphSchedule::place_plan_memory(std::span<const kernels::PlanMemory> memory) {
  for (NodeId id = 1; id < nodes_.size(); ++id) {
    const bool runs_again = again_time_[id] != kNever;
    const auto place = [&](std::size_t time, bool for_backward, ForwardBlocks& blocks) {
      blocks.saved = planner_.add(memory[id].saved, time, for_backward ? backward_time(id) : time);
      blocks.scratch = planner_.add(memory[id].forward_scratch, time, time);
    };
    place(forward_time(id), gradient_needs_[id] && !runs_again, nodes_[id].forward);
    if (runs_again) place(again_time_[id], gradient_needs_[id], nodes_[id].again);
    if (gradient_needs_[id])
      nodes_[id].backward_scratch = planner_.add(memory[id].backward_scratch, backward_time(id), backward_time(id));
  }
}

void GraphSchedule::place_gradients() {
  const NodeId output = graph_.output();
  if (chunk_rows_ == 0) {
    loss_gradient_ = planner_.add(floats(output), loss_time(), backward_time(output));
    nodes_[output].output_gradients = {loss_gradient_};
  }
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
/// overwrites the arena's gradient, the others add, and after the last it is final. Adding without a block of its own
/// rounds in another order: only networks whose loss runs in chunks do it, and no others' results have changed.
void GraphSchedule::schedule_parameters() {
  std::vector<bool> seen(graph_.parameters().size());
  for (NodeId id = graph_.output(); id > 0; --id) {
    const Node& node = graph_.nodes()[id];
    const auto was_seen = [&](std::size_t parameter) { return seen[parameter]; };
    nodes_[id].adds_parameter_gradients = chunk_rows_ > 0 && node.traits.adds_parameter_gradients &&
                                          !node.parameters.empty() && std::ranges::all_of(node.parameters, was_seen);
    for (std::size_t parameter : node.parameters) {
      const std::size_t size = graph_.parameters()[parameter].shape.size();
      const bool needs_block = seen[parameter] && !nodes_[id].adds_parameter_gradients;
      nodes_[id].parameter_gradients.push_back(needs_block ? planner_.add(size, backward_time(id), backward_time(id))
                                                           : kNoBlock);
    }
    for (std::size_t parameter : node.parameters) seen[parameter] = true;
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

}  // namespace dragonn::layers

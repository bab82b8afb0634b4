// SPDX-License-Identifier: MIT
/// GraphSchedule: the place of every value of a forward and backward pass, and the work after each layer's backward.
/// MemoryPlanner: places blocks with known lifetimes in one piece of memory, reusing what is free.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "kernels/typed_view.h"
#include "layers/graph.h"

namespace dragonn::layers {

/// Places the largest block first, each at the lowest offset that is free in its lifetime. O(blocks^2).
class MemoryPlanner {
 public:
  using Block = std::size_t;

  /// Adds a block of `floats` elements (rounded up to a cache line), live from time `first` to `last`, both included.
  Block add(std::size_t floats, std::size_t first, std::size_t last);
  /// Extends the block's lifetime to include `time`.
  void extend(Block block, std::size_t time);

  /// Computes the offsets. Called once, last.
  void place();
  std::size_t offset(Block block) const { return blocks_[block].offset; }
  std::size_t size(Block block) const { return blocks_[block].size; }
  /// Returns the floats of memory that hold all blocks.
  std::size_t total() const { return total_; }
  /// Returns the floats of the blocks that are live at `time`.
  std::size_t live_at(std::size_t time) const;

 private:
  struct Extent {
    std::size_t size = 0;
    std::size_t first = 0;
    std::size_t last = 0;
    std::size_t offset = 0;

    bool overlaps_in_time(const Extent& other) const { return first <= other.last && other.first <= last; }
  };

  std::vector<Extent> blocks_;
  std::size_t total_ = 0;
};

inline constexpr MemoryPlanner::Block kNoBlock = std::numeric_limits<MemoryPlanner::Block>::max();

/// The blocks of one node; kNoBlock stands for those that it does not have.
struct NodeSchedule {
  using Block = MemoryPlanner::Block;
  struct Sum {
    Block target, addend;
    NodeId node;  ///< the node whose output gradient is `target`
  };

  Block output = kNoBlock;
  Block saved = kNoBlock;
  Block forward_scratch = kNoBlock;
  Block backward_scratch = kNoBlock;
  bool runs_backward = false;
  std::vector<Block> output_gradients;
  std::vector<Block> input_gradients;  ///< one per input
  std::vector<Sum> sums;               ///< done after the node's backward: target += addend
  /// One block per parameter: the gradient is written there, then added to the arena, if a later layer with the same
  /// parameter wrote to the arena first.
  std::vector<Block> parameter_gradients;
  std::vector<std::size_t> ready;  ///< parameters whose gradient is final after this node
};

/// Returns the type in which every node's output and its gradient are kept if a network keeps activations in `type`:
/// the same, but float32 for the network's input, and views of it, where a layer takes it as tokens.
std::vector<kernels::ElementType> element_types(const LayerGraph& graph, kernels::ElementType type);

/// Places all values by their lifetimes. Of n nodes, node i runs forward at time i, the loss at n, backward at 2n - i.
class GraphSchedule {
 public:
  /// @param memory one entry per node, with sizes for the batch.  @param mode an evaluation has no backward pass.
  /// @param types by node, as element_types() returns them.
  GraphSchedule(const LayerGraph& graph, std::size_t batch, Mode mode, bool input_gradient,
                std::span<const kernels::PlanMemory> memory, std::span<const kernels::ElementType> types);

  const NodeSchedule& operator[](NodeId node) const { return nodes_[node]; }
  const MemoryPlanner& memory() const { return planner_; }
  /// The block of the batch as it arrives, in float32: that of node 0's output, unless that is rounded to bf16.
  MemoryPlanner::Block input() const { return input_; }
  /// The block of the loss's gradient; kNoBlock in an evaluation.
  MemoryPlanner::Block loss_gradient() const { return loss_gradient_; }
  /// The block of the gradient of the network's input, if asked for.
  MemoryPlanner::Block input_gradient() const;
  /// Returns the floats that are live between forward and backward.
  std::size_t kept_floats() const;

 private:
  std::size_t backward_time(NodeId node) const { return 2 * graph_.nodes().size() - node; }
  std::size_t end_time() const { return 2 * graph_.nodes().size(); }
  std::size_t floats(NodeId node) const {
    return kernels::floats_of(types_[node], graph_.nodes()[node].output.size() * batch_);
  }

  void place_activations();
  void place_plan_memory(std::span<const kernels::PlanMemory> memory);
  void place_gradients();
  MemoryPlanner::Block place_input_gradient(NodeId node, std::size_t input);
  void contribute(NodeId from, NodeId to, MemoryPlanner::Block gradient);
  void schedule_parameters();

  const LayerGraph& graph_;
  std::size_t batch_;
  bool training_;
  std::vector<kernels::ElementType> types_;  // by node
  std::vector<bool> gradient_needs_;
  std::vector<std::size_t> consumers_;  // edges that bring a node's output a gradient
  std::vector<NodeSchedule> nodes_;
  MemoryPlanner planner_;
  MemoryPlanner::Block input_ = kNoBlock;
  MemoryPlanner::Block loss_gradient_ = kNoBlock;
};

}  // namespace dragonn::layers

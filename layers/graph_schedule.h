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
  std::size_t live_at(std::size_t time) const { return live_during(time, time); }
  /// Returns the floats of the blocks that are live from `first` to `last`.
  std::size_t live_during(std::size_t first, std::size_t last) const;

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

/// The blocks of one run of a node's forward.
struct ForwardBlocks {
  MemoryPlanner::Block output = kNoBlock;
  MemoryPlanner::Block saved = kNoBlock;
  MemoryPlanner::Block scratch = kNoBlock;
};

/// The blocks of one node; kNoBlock stands for those that it does not have.
struct NodeSchedule {
  using Block = MemoryPlanner::Block;
  struct Sum {
    Block target, addend;
    NodeId node;  ///< the node whose output gradient is `target`
  };

  ForwardBlocks forward;
  ForwardBlocks again;  ///< of a node whose forward runs a second time, for backward
  Block backward_scratch = kNoBlock;
  bool runs_backward = false;
  std::vector<Block> output_gradients;
  std::vector<Block> input_gradients;  ///< one per input
  std::vector<Sum> sums;               ///< done after the node's backward: target += addend
  /// One block per parameter: the gradient is written there, then added to the arena, if a later layer with the same
  /// parameter wrote to the arena first.
  std::vector<Block> parameter_gradients;
  bool adds_parameter_gradients = false;  ///< the layer itself adds to the arena, without such blocks
  std::vector<std::size_t> ready;         ///< parameters whose gradient is final after this node
};

/// Returns the type in which every node's output and its gradient are kept if a network keeps activations in `type`:
/// the same, but float32 for the network's input, and views of it, where a layer takes it as tokens.
std::vector<kernels::ElementType> element_types(const LayerGraph& graph, kernels::ElementType type);

/// Returns the rows of the output of a batch.
std::size_t output_rows(const LayerGraph& graph, std::size_t batch);
/// Returns the rows of a chunk of the loss: all chunks of a batch have as many, but the last may have less. 0 if the
/// loss takes all rows at once.
std::size_t chunk_rows(const LayerGraph& graph, std::size_t batch);

/// A pass of a node behind the loss: its backward, or its forward again.
struct LaterPass {
  NodeId node;
  bool is_forward;
};

/// Throws unless a network can compute again what `recompute` says. @throws ConfigError if the graph has no such
/// layers, or a layer of a block has state, which would change a second time.
void check_recompute(const LayerGraph& graph, Recompute recompute);

/// Places all values by their lifetimes. Of n nodes, node i runs forward at time i, the loss at n, and then the later
/// passes one after the other: backward from the last node to the first, and in front of the first that reads a dropped
/// value the forward passes that make it again. So such a value has two lives, each in a block of its own.
///
/// If the loss runs in chunks, the last node runs forward and backward at n: its output is one chunk, which its
/// gradient overwrites, and its input stays until the next forward pass.
class GraphSchedule {
 public:
  /// @param memory one entry per node, with sizes for the batch.  @param mode an evaluation has no backward pass.
  /// @param types by node, as element_types() returns them.
  GraphSchedule(const LayerGraph& graph, std::size_t batch, Mode mode, bool input_gradient,
                std::span<const kernels::PlanMemory> memory, std::span<const kernels::ElementType> types,
                Recompute recompute = Recompute::kNone);

  const NodeSchedule& operator[](NodeId node) const { return nodes_[node]; }
  /// The passes behind the loss, in their order.
  const std::vector<LaterPass>& later_passes() const { return later_passes_; }
  /// The times of a node's passes; kNever stands for one that it does not have.
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  std::size_t forward_time(NodeId node) const { return runs_in_chunks(node) ? loss_time() : node; }
  std::size_t again_time(NodeId node) const { return again_time_[node]; }
  std::size_t backward_time(NodeId node) const { return backward_time_[node]; }
  /// Returns the block of a node's output for a pass at `time`.
  MemoryPlanner::Block value(NodeId node, std::size_t time) const;
  const MemoryPlanner& memory() const { return planner_; }
  /// The block of the batch as it arrives, in float32: that of node 0's output, unless that is rounded to bf16.
  MemoryPlanner::Block input() const { return input_; }
  /// The block of the loss's gradient; kNoBlock in an evaluation, or if the loss runs in chunks.
  MemoryPlanner::Block loss_gradient() const { return loss_gradient_; }
  /// The block of the gradient of the network's input, if asked for.
  MemoryPlanner::Block input_gradient() const;
  /// The rows of the chunks, but for the last one; 0 if the loss takes all at once.
  std::size_t chunk_rows() const { return chunk_rows_; }
  /// Returns the elements of a node's output for the batch; of the last node, those of a chunk.
  std::size_t elements(NodeId node) const;
  /// Returns the floats that are live between forward and backward.
  std::size_t kept_floats() const { return planner_.live_during(loss_time() - 1, loss_time() + 1); }

 private:
  std::size_t loss_time() const { return graph_.nodes().size(); }
  bool runs_in_chunks(NodeId node) const { return chunk_rows_ > 0 && node == graph_.output(); }
  std::size_t end_time() const { return loss_time() + later_passes_.size() + 1; }
  std::size_t floats(NodeId node) const { return kernels::floats_of(types_[node], elements(node)); }

  std::vector<bool> dropped_values(Recompute recompute) const;
  void order_passes(Recompute recompute);
  void place_activations();
  void place_plan_memory(std::span<const kernels::PlanMemory> memory);
  void place_gradients();
  MemoryPlanner::Block place_input_gradient(NodeId node, std::size_t input);
  void contribute(NodeId from, NodeId to, MemoryPlanner::Block gradient);
  void schedule_parameters();

  const LayerGraph& graph_;
  std::size_t batch_;
  std::size_t chunk_rows_;
  bool training_;
  std::vector<kernels::ElementType> types_;  // by node
  std::vector<bool> gradient_needs_;
  std::vector<NodeId> source_;                           // by node: the one whose output it shows as a view, or itself
  std::vector<std::size_t> again_time_, backward_time_;  // by node
  std::vector<LaterPass> later_passes_;
  std::vector<std::size_t> consumers_;  // edges that bring a node's output a gradient
  std::vector<NodeSchedule> nodes_;
  MemoryPlanner planner_;
  MemoryPlanner::Block input_ = kNoBlock;
  MemoryPlanner::Block loss_gradient_ = kNoBlock;
};

}  // namespace dragonn::layers

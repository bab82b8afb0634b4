// SPDX-License-Identifier: MIT
/// GraphPlan: a layer graph prepared to run batches of one size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/parameter.h"
#include "kernels/repeated_work.h"
#include "layers/graph.h"
#include "layers/graph_schedule.h"

namespace dragonn::layers {

/// The keys of one pass's random streams.
struct PassKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  int rank = 0;
};

/// Returns why a graph's activations cannot be kept in bf16: the layer that does not take it; else empty.
std::string bf16_obstacle(const LayerGraph& graph);

/// Some rows of the output of a graph whose loss runs in chunks.
struct OutputChunk {
  std::size_t begin, rows;
  kernels::TypedView<float> output;  ///< [rows, columns]
};
using ChunkFunction = std::function<void(const OutputChunk&)>;

/// Owns the plans of the layers and runs them in memory that its owner lends: plans of several batch sizes share one
/// workspace. On a GPU a pass without lengths is recorded when it runs for the second time, and replayed from then on.
/// So is backward, unless the caller wants to know when each gradient is final.
class GraphPlan {
  template <class T>
  using TypedView = kernels::TypedView<T>;

 public:
  /// Makes a plan per layer; `graph` must outlive this. @param input_gradient backward computes that of the network's
  /// input.  @param type of activations and their gradients in memory; all layers must take it (bf16_obstacle).
  /// @param execution what it computes again must fit the graph (check_recompute).
  GraphPlan(const LayerGraph& graph, std::size_t batch, Mode mode, Device device = {}, bool input_gradient = false,
            kernels::ElementType type = kernels::ElementType::kFloat32, const Execution& execution = {});
  ~GraphPlan();
  GraphPlan(const GraphPlan&) = delete;
  GraphPlan& operator=(const GraphPlan&) = delete;

  const LayerGraph& graph() const { return graph_; }
  std::size_t batch() const { return batch_; }
  Mode mode() const { return mode_; }
  /// Returns the size of the workspace.
  std::size_t workspace_floats() const { return schedule_.memory().total(); }
  /// Returns the size of its part that holds values from forward to backward.
  std::size_t kept_floats() const { return schedule_.kept_floats(); }

  /// Describes the layers whose plans describe themselves.
  std::vector<LayerDescription> describe() const;

  /// Sets the memory of everything. Cheap if nothing moved since the last call. @param statistics the graph's, in
  /// order.
  /// @param states the graph's for the batch, one after the other.  @throws ShapeError if the workspace is too small.
  void bind(View<float> workspace, ParameterArena& arena, View<float> statistics, View<float> states = {});

  /// Views into the workspace, with the batch as first axis. Fill input(), which is float32 in any case, before forward
  /// and output_gradient() before backward; the passes overwrite both. If the loss runs in chunks, output() and
  /// output_gradient() have no values.
  View<float> input() const { return memory(schedule_.input(), elements(LayerGraph::input())); }
  TypedView<float> output() const { return values(schedule_[graph_.output()].forward.output, graph_.output()); }
  TypedView<float> output_gradient() const { return values(schedule_.loss_gradient(), graph_.output()); }
  /// The gradient of the network's input after backward, if it was asked for.
  TypedView<const float> input_gradient() const { return values(schedule_.input_gradient(), LayerGraph::input()); }

  /// Returns whether the loss runs in chunks. If so, forward stops in front of the last layer, for run_chunks().
  bool runs_in_chunks() const { return schedule_.chunk_rows() > 0; }
  /// Runs the last layer by chunks of rows. `loss` gets each chunk's output. In training it puts the gradient in its
  /// place, with which the layer runs backward: the parameters' gradients of the arena are overwritten, and the input's
  /// gradient is there for backward().
  void run_chunks(const ChunkFunction& loss);
  /// Computes the last layer's output again, with the parameters as they are now: `take` gets it chunk by chunk. May be
  /// called until the next forward.
  void compute_chunks(const ChunkFunction& take);

  /// Runs forward. On a GPU, wait for it before the next one. @param lengths [batch], valid time steps; empty: all are.
  void forward(const PassKey& key, std::span<const std::int32_t> lengths = {});
  /// The valid time steps of the output in the last forward; empty: all are.
  std::span<const std::int32_t> output_lengths() const { return lengths_of(graph_.output()); }
  /// Runs backward for the last forward. Calls ready(id) once a parameter's gradient is final, which a GPU waits for.
  void backward(const std::function<void(ParameterId)>& ready);
  /// Returns why passes are not replayed on a GPU although they could be; else empty.
  const std::string& repetition_obstacle() const;

 private:
  struct Run;
  struct Step;

  std::size_t elements(NodeId node) const { return schedule_.elements(node); }
  /// Returns the values of a node's output, or of its gradient, that are in this block.
  TypedView<float> values(MemoryPlanner::Block block, NodeId node) const;
  View<float> memory(MemoryPlanner::Block block, std::size_t floats) const;
  View<float> whole(MemoryPlanner::Block block) const;
  std::vector<std::unique_ptr<LayerPlan>> make_plans(Device device, bool input_gradient, kernels::ElementType type,
                                                     kernels::DeviceMath math);
  std::vector<kernels::PlanMemory> plan_memory() const;
  using ChunkBody = std::function<void(LayerPlan&, TypedView<const float> input, const OutputChunk&)>;
  void for_each_chunk(const ChunkBody& body);
  void bind_backward(NodeId id, ParameterArena& arena, Step& step) const;
  void derive_lengths(std::span<const std::int32_t> lengths);
  Run run_at(NodeId id, std::size_t time, MemoryPlanner::Block saved, MemoryPlanner::Block scratch) const;
  void run_layer(NodeId id, const Run& run);
  void run_forward();
  void run_backward(const std::function<void(ParameterId)>& ready);
  View<const std::uint64_t> stream(NodeId node) const {
    return stream_keys_.size() == 0 ? View<const std::uint64_t>() : streams_.view().subview(node, 1);
  }
  std::span<const std::int32_t> lengths_of(NodeId node) const {
    return has_lengths_ ? std::span(lengths_).subspan(node * batch_, batch_) : std::span<const std::int32_t>();
  }

  const LayerGraph& graph_;
  std::size_t batch_;
  Mode mode_;
  std::vector<kernels::ElementType> types_;        // per node, of its output and the gradient of that
  std::unique_ptr<LayerPlan> last_chunk_plan_;     // of the last node, if the last chunk has fewer rows than the others
  std::vector<std::unique_ptr<LayerPlan>> plans_;  // per node; null for the input and views
  GraphSchedule schedule_;
  View<float> workspace_;
  const float* bound_values_ = nullptr;
  const float* bound_statistics_ = nullptr;
  const float* bound_states_ = nullptr;
  std::vector<std::int32_t> lengths_;  // [nodes, batch]
  bool has_lengths_ = false;
  std::vector<Step> steps_;            // per node
  Buffer<std::uint64_t> stream_keys_;  // per node, in host memory; empty if no layer is random
  Buffer<std::uint64_t> streams_;      // the same where the layers compute
  kernels::RepeatedWork forward_work_, backward_work_;
};

}  // namespace dragonn::layers

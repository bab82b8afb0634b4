// SPDX-License-Identifier: MIT
/// LayerGraph: the layers of a network and their connections, without any memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layers/layer.h"
#include "layers/loss.h"

namespace dragonn::layers {

/// Index of a node: 0 is the network's input; layers follow in the order of their addition.
using NodeId = std::size_t;

/// A layer in the graph, with shapes for batch 1.
struct Node {
  std::string name;
  std::shared_ptr<const Layer> layer;  ///< null for the network's input; shared with the graphs of other lengths
  std::vector<NodeId> inputs;
  std::optional<NodeId> tied_to;
  std::size_t block = 0;  ///< the number of its block, from 1 on; 0: it is in none
  std::vector<Shape> input_shapes;
  Shape output;
  /// The extents, channels last, of the images of which the output's last axis is a flattening; rank 0 if it is none.
  Shape image;
  LayerTraits traits;
  std::vector<std::size_t> parameters;  ///< indices into LayerGraph::parameters()
  std::vector<std::size_t> statistics;  ///< indices into LayerGraph::statistics()
  std::vector<std::size_t> states;      ///< indices into LayerGraph::states()
};

/// The layers of a network. Nodes are in topological order: a layer's inputs exist before it. The last is the output.
class LayerGraph {
 public:
  /// @param sample_shape without the batch.
  explicit LayerGraph(const Shape& sample_shape);

  static constexpr NodeId input() { return 0; }
  NodeId output() const { return nodes_.size() - 1; }
  const Shape& sample_shape() const { return sample_shape_; }

  /// Adds a layer. With `tied_to`, parameters that have the name and shape of one of that node's are shared with it:
  /// their gradient is the sum over both. @throws ShapeError naming the layer if its inputs do not fit.
  NodeId add(const std::string& name, Layer layer, std::vector<NodeId> inputs,
             std::optional<NodeId> tied_to = std::nullopt) {
    return add(name, std::make_shared<const Layer>(std::move(layer)), std::move(inputs), tied_to);
  }
  /// Sets the loss. The default is softmax cross-entropy of one class per sample.
  /// @param chunk_rows if not 0: the last layer and the loss run by chunks of at most so many rows (samples, or their
  /// steps), so that the logits of all rows are never in memory. A chunk goes through forward, loss and backward of the
  /// last layer before the next one; the gradients of its parameters sum over the chunks. The last layer must have
  /// LayerTraits::works_by_rows, and the loss Loss::sums_rows. Layers that can then add to the gradient of a tied
  /// parameter directly: its bits are not those of the whole loss.
  void set_loss(Loss loss, std::size_t chunk_rows = 0) {
    loss_ = std::move(loss);
    chunk_rows_ = chunk_rows;
  }
  /// Makes a block of the layers from `first` to the last one: backward may compute their outputs again at once.
  void make_block(NodeId first);

  /// Returns the graph of the same layers and parameters for samples of `steps` time steps, their first extent.
  /// @throws ShapeError if a layer does not take that many.
  LayerGraph with_steps(std::int64_t steps) const;

  const std::vector<Node>& nodes() const { return nodes_; }
  /// The parameters in forward order; names are "layer.parameter".
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<StatisticsSpec>& statistics() const { return statistics_; }
  const std::vector<StateSpec>& states() const { return states_; }
  const Loss& loss() const { return loss_; }
  /// The largest number of rows of a chunk; 0 if the loss takes all at once.
  std::size_t chunk_rows() const { return chunk_rows_; }
  /// Returns the extent of the output's last axis.
  std::size_t columns() const { return static_cast<std::size_t>(nodes_.back().output.extents().back()); }
  /// Returns the number of classes: the columns without those that only pad (ParameterSpec::padding).
  std::size_t classes() const;

  /// Returns, by node, whether its output needs a gradient: if a parameter is at or before it, and always if `input`.
  std::vector<bool> gradient_needs(bool input) const;
  /// Returns the operations of forward and backward for one sample: 2 per multiply-add of forward, the same for the
  /// weights' gradient, and for the input's if backward computes one (the first layer's is not computed).
  double training_flops() const;
  /// Returns those of backward, by node.
  std::vector<double> backward_flops() const;

 private:
  NodeId add(const std::string& name, std::shared_ptr<const Layer> layer, std::vector<NodeId> inputs,
             std::optional<NodeId> tied_to);
  std::size_t parameter(const std::string& layer, ParameterSpec spec, std::optional<NodeId> tied_to);

  Shape sample_shape_;
  std::vector<Node> nodes_;
  std::vector<ParameterSpec> parameters_;
  std::vector<StatisticsSpec> statistics_;
  std::vector<StateSpec> states_;
  Loss loss_;
  std::size_t chunk_rows_ = 0;
  std::size_t blocks_ = 0;
};

/// Returns `sample` with a batch axis in front.
Shape batched(const Shape& sample, std::int64_t batch);

}  // namespace dragonn::layers

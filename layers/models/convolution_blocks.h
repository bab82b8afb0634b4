// SPDX-License-Identifier: MIT
/// The blocks that convolutional networks share: filters with batch norm, branches, squeeze-and-excitation, residual
/// blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/graph.h"
#include "layers/layers.h"

namespace dragonn::layers {

/// A convolution of a branch.
struct Filter {
  std::int64_t channels = 1;
  std::int64_t height = 1, width = 1;
  std::int64_t stride = 1;
  bool padded = true;  ///< with half of the kernel on each side, so that stride 1 keeps the size
};

/// Adds convolutions, each with batch norm and ReLU, to one graph.
class FilterBuilder {
 public:
  struct Settings {
    double width = 1;       ///< factor of all channel counts
    bool bias = false;      ///< of the convolutions; without effect in front of a batch norm, but parameters
    float epsilon = 1e-5f;  ///< of the batch norms
  };
  FilterBuilder(LayerGraph& graph, const Settings& settings) : graph_(graph), settings_(settings) {}

  /// Adds layers NAME.conv and NAME.bn. Returns the last one.
  NodeId add(const std::string& name, NodeId input, const Filter& filter) const;
  /// Adds filters one after the other, NAME.1.conv and on.
  NodeId add_branch(const std::string& name, NodeId input, const std::vector<Filter>& filters) const;
  /// Adds a layer.
  NodeId add_layer(const std::string& name, std::shared_ptr<const Layer> layer, std::vector<NodeId> inputs) const {
    return graph_.add(name, std::move(layer), std::move(inputs));
  }

 private:
  LayerGraph& graph_;
  Settings settings_;
};

/// Adds the factors of an image's channels: their means, two linear layers (a sixteenth of the channels, then all of
/// them) with ReLU and sigmoid, and the product of the image with these. Source: Hu et al., arXiv:1709.01507,
/// section 3.
NodeId add_excitation(LayerGraph& graph, NodeId input, const std::string& name);

/// The shortcut from a block's input to its output if the shapes differ.
enum class Shortcut {
  kPad,         ///< option A: every other pixel, zero channels; no parameters
  kProjection,  ///< option B: 1x1 convolution and batch norm
};

struct ResidualBlock {
  std::string name;
  std::int64_t channels = 1;  ///< of the output
  std::int64_t stride = 1;
  Shortcut shortcut = Shortcut::kPad;
  WeightInit weight_init = WeightInit::kHeFanOut;
};

/// Adds two 3x3 convolutions, each with batch norm. The sum with the shortcut and the last ReLU are part of the second
/// batch norm. Returns the block's output. Source: arXiv:1512.03385, figure 2 and section 3.3.
NodeId add_residual_block(LayerGraph& graph, NodeId input, const ResidualBlock& block);

/// Adds 1x1 to a quarter of the channels, 3x3 with the stride, and 1x1 to all of them, each with batch norm; the rest
/// as above. Source: arXiv:1512.03385, figure 5. The stride is that of the 3x3 convolution as in PyTorch's model, not
/// of the first one.
NodeId add_bottleneck_block(LayerGraph& graph, NodeId input, const ResidualBlock& block);

/// Adds a convolution without bias, then batch norm and ReLU: the stem of a residual network.
NodeId add_stem(LayerGraph& graph, const ConvolutionSettings& settings);

/// Adds global average pooling, dropout of the features if any, and a linear layer with PyTorch's default bias.
void add_classifier(LayerGraph& graph, NodeId input, std::int64_t classes, WeightInit weight_init,
                    double dropout_rate = 0);

}  // namespace dragonn::layers

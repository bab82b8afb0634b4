// SPDX-License-Identifier: MIT
/// The residual blocks of He et al., shared by the residual networks.
#pragma once

#include <cstdint>
#include <string>

#include "layers/graph.h"
#include "layers/layers.h"

namespace dragonn::layers {

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

// SPDX-License-Identifier: MIT
/// The blocks that models of attention and mixing layers share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "layers/graph.h"
#include "layers/layers.h"

namespace dragonn::layers {

/// An encoder block of multi-head self-attention and two linear layers with GELU, each with a residual connection.
struct TransformerBlock {
  std::string name;
  std::int64_t heads = 1;
  std::int64_t feed_forward = 1;  ///< units between the linear layers
  double dropout = 0;             ///< rate on what is added to the residual connections
  bool norm_first = false;        ///< layer norm on the input of each part (ViT), or on the sums (BERT)
};
/// Adds the block behind `input` [steps, width]. Source: arXiv:1706.03762, section 3.1; norm_first: arXiv:2010.11929,
/// figure 1.
NodeId add_transformer_block(LayerGraph& graph, NodeId input, const TransformerBlock& block);

/// Adds a linear layer, GELU, and a linear layer back to the width of `input`.
NodeId add_feed_forward(LayerGraph& graph, NodeId input, const std::string& name, std::int64_t units);

/// Adds patches: turns an image [height, width, channels] into steps [patches, width], one per square patch, with zeros
/// at the right and lower edges if the side is no multiple of the patch.
NodeId add_patches(LayerGraph& graph, std::int64_t patch, std::int64_t width);

/// Adds layer norm, the mean over the steps, and a linear layer.
void add_step_classifier(LayerGraph& graph, NodeId input, std::int64_t classes);

/// Returns the settings of a linear layer whose weight starts as in transformers: uniform with variance 2 / (fan in +
/// fan out).
LinearSettings transformer_linear(std::int64_t outputs);

/// @throws ConfigError unless the heads divide the width.
void require_heads(std::string_view model, std::int64_t width, std::int64_t heads);

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// Parts that models share: checks that a model fits its data, and blocks of layers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layers/graph.h"
#include "layers/layers.h"
#include "layers/network.h"

namespace dragonn::layers {

// Checks. @throws ConfigError naming the model, the sample's shape and what would fit.

/// Requires samples to be images that can be halved `halvings` times: before each halving a side must have two pixels.
void require_image(std::string_view model, const ModelContext& context, int halvings);
/// Requires samples to be images with sides of `smallest` pixels at least.
void require_image_side(std::string_view model, const ModelContext& context, std::int64_t smallest);
/// Requires samples to have `rank` axes, time first: 1 for [steps] of tokens, 2 for [steps, features].
void require_sequence(std::string_view model, const ModelContext& context, std::size_t rank);
/// Requires two classes at least.
void require_classes(std::string_view model, const ModelContext& context);
/// Requires samples to have no more than `max` steps, the model's setting `key`.
void require_steps(std::string_view model, const ModelContext& context, std::string_view key, std::int64_t max);
/// Requires the heads to divide the width.
void require_heads(std::string_view model, std::int64_t width, std::int64_t heads);

/// Returns the setting `width` of models that exist in smaller sizes, too.
SettingSpec width_setting();
/// Returns a number of channels times the setting `width`, rounded, and at least 1.
std::int64_t scaled_channels(std::int64_t channels, double width);

/// Adds dropout, or nothing if the rate is 0.
NodeId add_dropout(LayerGraph& graph, const std::string& name, double rate, NodeId input);

/// A convolution of a branch.
struct Filter {
  std::int64_t channels = 1;
  std::int64_t height = 1, width = 1;
  std::int64_t stride = 1;
  bool padded = true;  ///< with half of the kernel on each side, so that stride 1 keeps the size
};

/// Adds convolutions, each with batch norm and ReLU, to one graph.
struct FilterBuilder {
  LayerGraph& graph;
  double width = 1;       ///< factor of all channel counts
  bool bias = false;      ///< of the convolutions; without effect in front of a batch norm, but parameters
  float epsilon = 1e-5f;  ///< of the batch norms

  /// Adds layers NAME.conv and NAME.bn. Returns the last one.
  NodeId add(const std::string& name, NodeId input, const Filter& filter) const;
  /// Adds filters one after the other, NAME.1.conv and on.
  NodeId add_branch(const std::string& name, NodeId input, const std::vector<Filter>& filters) const;
};

/// Scales an image's channels by their means behind two linear layers (a sixteenth of the channels, then all of them)
/// with ReLU and sigmoid. Source: Hu et al., arXiv:1709.01507, section 3.
NodeId add_excitation(LayerGraph& graph, NodeId input, const std::string& name);

/// Adds global average pooling, dropout of the features if any, and a linear layer with PyTorch's default bias.
void add_classifier(LayerGraph& graph, NodeId input, std::int64_t classes, WeightInit weight_init,
                    double dropout_rate = 0);

/// The first weights of a part of linear layers with a residual connection around it; biases start at zero.
struct PartInit {
  WeightDistribution inner = WeightInit::kXavierUniform;
  WeightDistribution last = WeightInit::kXavierUniform;  ///< of the layer whose output is added to the connection
};

/// Two linear layers with an activation between them.
struct FeedForward {
  std::string name;
  std::int64_t units = 1;  ///< between the layers
  kernels::Activation activation = kernels::Activation::kGelu;
  PartInit init = {};
};
/// Adds both, back to the width of `input`.
NodeId add_feed_forward(LayerGraph& graph, NodeId input, const FeedForward& part);

/// A block of multi-head self-attention and two linear layers, each with a residual connection.
struct TransformerBlock {
  std::string name;
  std::int64_t heads = 1;
  std::int64_t feed_forward = 1;  ///< units between the linear layers
  double dropout = 0;             ///< rate on what is added to the residual connections
  bool norm_first = false;        ///< layer norm on the input of each part (ViT, GPT-2), or on the sums (BERT)
  bool causal = false;            ///< attention sees no later steps
  kernels::Activation activation = kernels::Activation::kGelu;
  PartInit init = {};
};
/// Adds the block behind `input` [steps, width]. Source: arXiv:1706.03762, section 3.1; norm_first: arXiv:2010.11929,
/// figure 1.
NodeId add_transformer_block(LayerGraph& graph, NodeId input, const TransformerBlock& block);

/// Makes a linear layer whose weight starts as in transformers if nothing else is said: uniform with variance 2 / (fan
/// in + fan out).
Layer transformer_linear(std::int64_t outputs, const WeightDistribution& weight_init = WeightInit::kXavierUniform);

}  // namespace dragonn::layers

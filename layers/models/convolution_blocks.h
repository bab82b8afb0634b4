// SPDX-License-Identifier: MIT
/// The parts that convolutional networks share: filters with batch norm, branches, squeeze-and-excitation.
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

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// The model shortcuts: a perceptron whose blocks have shortcuts. Nothing refers to this file: it registers the model
/// when the plug-in is loaded.
#include <dragonn/layers/graph.h>
#include <dragonn/layers/layers.h>
#include <dragonn/layers/network.h>
#include <memory>
#include <string>

namespace {

using namespace dragonn;

/// Blocks of x + relu(W x + b), all of one width, between two linear layers.
std::unique_ptr<layers::LayerGraph> make_shortcuts(const Settings& settings, const layers::ModelContext& context) {
  const std::int64_t width = settings.integer("width");
  auto graph = std::make_unique<layers::LayerGraph>(context.sample_shape);
  layers::NodeId last = graph->add("flatten", layers::flatten(), {layers::LayerGraph::input()});
  last = graph->add("input", layers::linear({.outputs = width}), {last});
  for (std::int64_t i = 0; i < settings.integer("blocks"); ++i) {
    const std::string name = "block" + std::to_string(i);
    layers::NodeId inner = graph->add(name, layers::linear({.outputs = width}), {last});
    inner = graph->add(name + ".relu", layers::activation(kernels::Activation::kRelu), {inner});
    last = graph->add(name + ".add", layers::residual_add(false), {last, inner});
  }
  graph->add("output", layers::linear({.outputs = context.classes}), {last});
  return graph;
}

const Registration<layers::ModelEntry> registration{
    {{"shortcuts",
      "perceptron whose blocks have shortcuts",
      "",
      {{.name = "width", .default_value = std::int64_t{32}, .help = "units of a block", .minimum = 1},
       {.name = "blocks", .default_value = std::int64_t{2}, .help = "blocks", .minimum = 0}}},
     make_shortcuts}};

}  // namespace

// SPDX-License-Identifier: MIT
/// One linear layer from features to a large set of labels.
#include <fmt/format.h>

#include "layers/graph.h"
#include "layers/layers.h"
#include "layers/models/model_shapes.h"

namespace dragonn::layers {
namespace {

std::unique_ptr<LayerGraph> make_xml_linear(const Settings&, const ModelContext& context) {
  require_classes("xml_linear", context);
  if (context.sample_shape.rank() != 1 || context.sample_shape.size() == 0)
    throw ConfigError(fmt::format("model xml_linear does not fit samples of shape {}: it needs [features]",
                                  context.sample_shape.to_string()));
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  graph->add("output", linear({.outputs = context.classes, .bias = false}), {LayerGraph::input()});
  graph->set_loss(multi_label_loss());
  return graph;
}

const Registration<ModelEntry> registration{
    {{"xml_linear", "one linear layer without bias, for any number of labels per sample",
      "DRAGONN (Wang et al., ICML 2022), section 5: 4096 to 30938"},
     make_xml_linear,
     InputKind::kFeatures}};

}  // namespace
}  // namespace dragonn::layers

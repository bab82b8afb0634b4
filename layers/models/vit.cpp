// SPDX-License-Identifier: MIT
/// Vision transformer: patches of an image as the steps of an encoder.
#include <fmt/format.h>

#include "layers/models/model_shapes.h"
#include "layers/models/transformer_block.h"

namespace dragonn::layers {
namespace {

std::unique_ptr<LayerGraph> make_vit(const Settings& settings, const ModelContext& context) {
  require_image("vit", context, 0);
  const std::int64_t hidden = settings.integer("hidden"), heads = settings.integer("heads");
  require_heads("vit", hidden, heads);
  const double rate = settings.number("dropout");
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  NodeId last = add_patches(*graph, settings.integer("patch"), hidden);
  last = graph->add("position", position_embedding(graph->nodes()[last].output[1]), {last});
  if (rate > 0) last = graph->add("position.dropout", dropout(rate), {last});
  for (std::int64_t i = 0; i < settings.integer("layers"); ++i)
    last = add_transformer_block(*graph, last, {fmt::format("layer{}", i), heads, 4 * hidden, rate, true});
  add_step_classifier(*graph, last, context.classes);
  return graph;
}

SettingSpecs settings() {
  return {
      SettingSpec::integer("patch", 4, "side of a patch in pixels", 1),
      SettingSpec::integer("layers", 6, "encoder blocks", 1),
      SettingSpec::integer("hidden", 128,
                           "width of a patch's vector; the feed-forward part of a block has 4 times as many units", 1),
      SettingSpec::integer("heads", 4, "attention heads of a block; must divide hidden", 1),
      SettingSpec::number("dropout", 0.0, "dropout rate of the patches and of the output of each part of a block", 0,
                          0.99)};
}

const Registration<ModelEntry> registration{
    {{"vit", "vision transformer that classifies the mean over the patches, without a class token",
      "arXiv:2010.11929, section 3.1", settings()},
     make_vit}};

}  // namespace
}  // namespace dragonn::layers

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
  return {{.name = "patch", .default_value = std::int64_t{4}, .help = "side of a patch in pixels", .minimum = 1},
          {.name = "layers", .default_value = std::int64_t{6}, .help = "encoder blocks", .minimum = 1},
          {.name = "hidden",
           .default_value = std::int64_t{128},
           .help = "width of a patch's vector; the feed-forward part of a block has 4 times as many units",
           .minimum = 1},
          {.name = "heads",
           .default_value = std::int64_t{4},
           .help = "attention heads of a block; must divide hidden",
           .minimum = 1},
          {.name = "dropout",
           .default_value = 0.0,
           .help = "dropout rate of the patches and of the output of each part of a block",
           .minimum = 0,
           .maximum = 0.99}};
}

const Registration<ModelEntry> registration{
    {{"vit", "vision transformer that classifies the mean over the patches, without a class token",
      "arXiv:2010.11929, section 3.1", settings()},
     make_vit}};

}  // namespace
}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// MLP-Mixer: perceptrons over the patches of an image and over their channels in turn.
#include <fmt/format.h>

#include "layers/models/model_shapes.h"
#include "layers/models/transformer_block.h"

namespace dragonn::layers {
namespace {

NodeId add_mixer_block(LayerGraph& graph, NodeId input, const std::string& name, const Settings& settings) {
  NodeId last = graph.add(name + ".norm1", layer_norm(), {input});
  last = graph.add(name + ".to_channels", swap_axes(), {last});
  last = add_feed_forward(graph, last, name + ".tokens", settings.integer("token_units"));
  last = graph.add(name + ".to_steps", swap_axes(), {last});
  const NodeId mixed = graph.add(name + ".sum1", residual_add(false), {last, input});
  last = graph.add(name + ".norm2", layer_norm(), {mixed});
  last = add_feed_forward(graph, last, name + ".channels", settings.integer("channel_units"));
  return graph.add(name + ".sum2", residual_add(false), {last, mixed});
}

std::unique_ptr<LayerGraph> make_mlp_mixer(const Settings& settings, const ModelContext& context) {
  require_image("mlp_mixer", context, 0);
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  NodeId last = add_patches(*graph, settings.integer("patch"), settings.integer("hidden"));
  for (std::int64_t i = 0; i < settings.integer("layers"); ++i)
    last = add_mixer_block(*graph, last, fmt::format("layer{}", i), settings);
  add_step_classifier(*graph, last, context.classes);
  return graph;
}

SettingSpecs settings() {
  return {SettingSpec::integer("patch", 4, "side of a patch in pixels", 1),
          SettingSpec::integer("layers", 6, "mixer blocks", 1),
          SettingSpec::integer("hidden", 128, "channels of a patch", 1),
          SettingSpec::integer("token_units", 64, "hidden units of the perceptrons over the patches", 1),
          SettingSpec::integer("channel_units", 512, "hidden units of the perceptrons over the channels", 1)};
}

const Registration<ModelEntry> registration{
    {{"mlp_mixer", "alternating perceptrons over patches and over channels", "arXiv:2105.01601, section 2", settings()},
     make_mlp_mixer}};

}  // namespace
}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// Models whose steps are the patches of an image: the vision transformer and MLP-Mixer.
#include <fmt/format.h>

#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

/// Adds patches: turns an image [height, width, channels] into steps [patches, width], one per square patch, with zeros
/// at the right and lower edges if the side is no multiple of the patch.
NodeId add_patches(LayerGraph& graph, std::int64_t patch, std::int64_t width) {
  const kernels::Window window{patch, patch, 0, true};
  const NodeId pixels = graph.add("patches",
                                  convolution({.outputs = width,
                                               .vertical = window,
                                               .horizontal = window,
                                               .bias = true,
                                               .weight_init = WeightInit::kXavierUniform}),
                                  {LayerGraph::input()});
  return graph.add("steps", merge_pixels(), {pixels});
}

/// Adds layer norm, the mean over the steps, and a linear layer.
void add_step_classifier(LayerGraph& graph, NodeId input, std::int64_t classes) {
  NodeId last = graph.add("norm", layer_norm(), {input});
  last = graph.add("pixels", steps_to_pixels(), {last});
  last = graph.add("pool", global_average_pooling(), {last});
  last = graph.add("flatten", flatten(), {last});
  graph.add("output", transformer_linear(classes), {last});
}

std::unique_ptr<LayerGraph> make_vit(const Settings& settings, const ModelContext& context) {
  require_image("vit", context, 0);
  const std::int64_t hidden = settings.integer("hidden"), heads = settings.integer("heads");
  require_heads("vit", hidden, heads);
  const double rate = settings.number("dropout");
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  NodeId last = add_patches(*graph, settings.integer("patch"), hidden);
  last = graph->add("position", position_embedding(graph->nodes()[last].output[1]), {last});
  last = add_dropout(*graph, "position.dropout", rate, last);
  for (std::int64_t i = 0; i < settings.integer("layers"); ++i)
    last = add_transformer_block(*graph, last, {fmt::format("layer{}", i), heads, 4 * hidden, rate, true});
  add_step_classifier(*graph, last, context.classes);
  return graph;
}

NodeId add_mixer_block(LayerGraph& graph, NodeId input, const std::string& name, const Settings& settings) {
  const NodeId first = graph.nodes().size();
  NodeId last = graph.add(name + ".norm1", layer_norm(), {input});
  last = graph.add(name + ".to_channels", swap_axes(), {last});
  last = add_feed_forward(graph, last, {name + ".tokens", settings.integer("token_units")});
  last = graph.add(name + ".to_steps", swap_axes(), {last});
  const NodeId mixed = graph.add(name + ".sum1", residual_add(false), {last, input});
  last = graph.add(name + ".norm2", layer_norm(), {mixed});
  last = add_feed_forward(graph, last, {name + ".channels", settings.integer("channel_units")});
  last = graph.add(name + ".sum2", residual_add(false), {last, mixed});
  graph.make_block(first);
  return last;
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

const Registration<ModelEntry> vit{
    {{"vit",
      "vision transformer that classifies the mean over the patches, without a class token",
      "arXiv:2010.11929, section 3.1",
      {SettingSpec::integer("patch", 4, "side of a patch in pixels", 1),
       SettingSpec::integer("layers", 6, "encoder blocks", 1),
       SettingSpec::integer("hidden", 128,
                            "width of a patch's vector; the feed-forward part of a block has 4 times as many units", 1),
       SettingSpec::integer("heads", 4, "attention heads of a block; must divide hidden", 1),
       SettingSpec::number("dropout", 0.0, "dropout rate of the patches and of the output of each part of a block", 0,
                           0.99)}},
     make_vit}};

const Registration<ModelEntry> mlp_mixer{
    {{"mlp_mixer",
      "alternating perceptrons over patches and over channels",
      "arXiv:2105.01601, section 2",
      {SettingSpec::integer("patch", 4, "side of a patch in pixels", 1),
       SettingSpec::integer("layers", 6, "mixer blocks", 1),
       SettingSpec::integer("hidden", 128, "channels of a patch", 1),
       SettingSpec::integer("token_units", 64, "hidden units of the perceptrons over the patches", 1),
       SettingSpec::integer("channel_units", 512, "hidden units of the perceptrons over the channels", 1)}},
     make_mlp_mixer}};

}  // namespace
}  // namespace dragonn::layers

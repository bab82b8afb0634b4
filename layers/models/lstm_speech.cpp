// SPDX-License-Identifier: MIT
/// Speech recognition: two convolutions over time and frequency, recurrent layers, a linear layer and CTC.
#include <fmt/format.h>

#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

/// Adds a convolution whose height is time, batch norm and clipped ReLU. The output behind a sample's length stays
/// zero, so that the next layer sees no trace of the padding.
NodeId add_front_end(LayerGraph& graph, const std::string& name, NodeId input, std::int64_t channels,
                     const kernels::Window& time, const kernels::Window& frequency) {
  // A bias in front of a batch norm is without effect, but the published parameter counts have it.
  NodeId last = graph.add(name,
                          convolution({.outputs = channels,
                                       .vertical = time,
                                       .horizontal = frequency,
                                       .bias = true,
                                       .weight_init = WeightInit::kFanInUniform}),
                          {input});
  last = graph.add(name + ".bn", batch_norm({}), {last});
  last = graph.add(name + ".relu", activation(kernels::Activation::kClippedRelu), {last});
  return graph.add(name + ".mask", mask_steps(), {last});
}

std::unique_ptr<LayerGraph> make_lstm_speech(const Settings& settings, const ModelContext& context) {
  require_sequence("lstm_speech", context, 2);
  const std::int64_t ahead = settings.integer("lookahead"), channels = settings.integer("channels");
  if (ahead > 0 && settings.flag("bidirectional"))
    throw ConfigError("model lstm_speech: bidirectional layers read all future steps: lookahead must be 0");
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  NodeId last = graph->add("image", add_channel(), {LayerGraph::input()});
  last = add_front_end(*graph, "conv1", last, channels, {11, 2, 5}, {41, 2, 20});
  last = add_front_end(*graph, "conv2", last, channels, {11, 1, 5}, {21, 2, 10});
  last = graph->add("frames", merge_channels(), {last});
  for (std::int64_t i = 0; i < settings.integer("layers"); ++i) {
    const std::string name = fmt::format("layer{}", i);
    if (i > 0) last = graph->add(name + ".bn", batch_norm({}), {last});
    last = graph->add(name,
                      recurrent({.cell = settings.text("cell") == "gru" ? kernels::Cell::kGru : kernels::Cell::kLstm,
                                 .hidden = settings.integer("hidden"),
                                 .bidirectional = settings.flag("bidirectional"),
                                 .join = DirectionJoin::kSum}),
                      {last});
  }
  if (ahead > 0) {
    last = graph->add("lookahead", lookahead(ahead), {last});
    last = graph->add("lookahead.relu", activation(kernels::Activation::kClippedRelu), {last});
  }
  last = graph->add("output.bn", batch_norm({}), {last});
  graph->add("output", linear({.outputs = context.classes, .bias = false}), {last});
  graph->set_loss(ctc_loss());
  return graph;
}

const Registration<ModelEntry> registration{
    {{"lstm_speech",
      "convolutions, recurrent layers and CTC over characters",
      "Deep Speech 2 (arXiv:1512.02595), section 3, in the form of SIDCo's and Ok-Topk's experiments",
      {SettingSpec::integer("layers", 5, "recurrent layers", 1),
       SettingSpec::integer("hidden", 800, "units of each layer", 1),
       SettingSpec::integer("channels", 32, "channels of both convolutions", 1),
       SettingSpec::text("cell", "lstm", "cell type of the recurrent layers", {"lstm", "gru"}),
       SettingSpec::flag(
           "bidirectional", false,
           "true: each recurrent layer runs in both directions and adds their outputs; lookahead must be 0"),
       SettingSpec::integer("lookahead", 20,
                            "future steps that a convolution after the recurrent layers reads; 0: no such convolution",
                            0)}},
     make_lstm_speech,
     InputKind::kFrames}};

}  // namespace
}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// Language model: embedding, LSTM layers, a linear layer to the vocabulary.
#include <fmt/format.h>

#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

std::unique_ptr<LayerGraph> make_lstm_lm(const Settings& settings, const ModelContext& context) {
  require_sequence("lstm_lm", context, 1);
  const std::int64_t hidden = settings.integer("hidden");
  const std::int64_t width = settings.integer("embedding") > 0 ? settings.integer("embedding") : hidden;
  const bool tied = settings.flag("tied");
  if (tied && width != hidden)
    throw ConfigError(fmt::format("model lstm_lm: tied weights need embedding = hidden, not {} and {}", width, hidden));
  const double rate = settings.number("dropout"), bound = settings.number("initial_bound");
  const Initializer weight_init = Initializer::uniform(bound);
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  const NodeId tokens =
      graph->add("embedding", embedding({.tokens = context.classes, .width = width, .weight_init = weight_init}),
                 {LayerGraph::input()});
  NodeId last = add_dropout(*graph, "embedding.dropout", rate, tokens);
  for (std::int64_t layer = 0; layer < settings.integer("layers"); ++layer) {
    const std::string name = fmt::format("layer{}", layer);
    last = graph->add(name,
                      recurrent({.cell = settings.text("cell") == "gru" ? kernels::Cell::kGru : kernels::Cell::kLstm,
                                 .hidden = hidden,
                                 .carries_state = true,
                                 .initial_bound = bound}),
                      {last});
    last = add_dropout(*graph, name + ".dropout", rate, last);
  }
  graph->add("output", linear({.outputs = context.classes, .weight_init = weight_init}), {last},
             tied ? std::optional(tokens) : std::nullopt);
  graph->set_loss(sequence_cross_entropy_loss());
  return graph;
}

const Registration<ModelEntry> registration{
    {{"lstm_lm",
      "recurrent language model over words or characters",
      "arXiv:1409.2329; two biases per layer as in PyTorch",
      {SettingSpec::integer("layers", 2, "recurrent layers", 1),
       SettingSpec::integer("hidden", 200, "units of each layer", 1),
       SettingSpec::integer("embedding", 0, "width of a token's vector; 0: the same as hidden", 0),
       SettingSpec::text("cell", "lstm", "cell type of the recurrent layers", {"lstm", "gru"}),
       SettingSpec::number("dropout", 0.0, "dropout rate of the embedding and of the output of each layer", 0, 0.99),
       SettingSpec::flag("tied", false, "true: the output layer uses the embedding's weights (arXiv:1608.05859)"),
       SettingSpec::number("initial_bound", 0.1, "initial weights are uniform in [-initial_bound, initial_bound]", 0)
           .above_minimum()}},
     make_lstm_lm,
     InputKind::kTokens}};

}  // namespace
}  // namespace dragonn::layers

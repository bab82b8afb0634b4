// SPDX-License-Identifier: MIT
/// Masked language model: a bidirectional transformer encoder over tokens.
#include <fmt/format.h>

#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

/// The head: a linear layer with GELU and layer norm, then the vocabulary.
void add_head(LayerGraph& graph, NodeId last, NodeId tokens, int vocabulary, bool tied) {
  const Shape& shape = graph.nodes()[last].output;
  last = graph.add("head.linear", transformer_linear(shape[2]), {last});
  last = graph.add("head.gelu", activation(kernels::Activation::kGelu), {last});
  last = graph.add("head.norm", layer_norm(), {last});
  graph.add("output", transformer_linear(vocabulary), {last}, tied ? std::optional(tokens) : std::nullopt);
  graph.set_loss(sequence_cross_entropy_loss());
}

/// The head for questions (section 4.2): two steps, the answer's beginning and its end, whose classes are the tokens.
void add_span_head(LayerGraph& graph, NodeId last) {
  last = graph.add("span", transformer_linear(2), {last});
  graph.add("span.to_tokens", swap_axes(), {last});
  graph.set_loss(sequence_cross_entropy_loss());
}

std::unique_ptr<LayerGraph> make_bert(const Settings& settings, const ModelContext& context) {
  require_sequence("bert", context, 1);
  const std::int64_t hidden = settings.integer("hidden"), heads = settings.integer("heads");
  const std::int64_t max_steps = settings.integer("max_steps");
  require_heads("bert", hidden, heads);
  require_steps("bert", context, "max_steps", max_steps);
  const double rate = settings.number("dropout");
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  const NodeId tokens = graph->add(
      "embedding", embedding({.tokens = context.classes, .width = hidden, .weight_init = Initializer::normal(0.02)}),
      {LayerGraph::input()});
  NodeId last = graph->add("position", position_embedding(max_steps), {tokens});
  last = graph->add("embedding.norm", layer_norm(), {last});
  last = add_dropout(*graph, "embedding.dropout", rate, last);
  for (std::int64_t i = 0; i < settings.integer("layers"); ++i)
    last = add_transformer_block(*graph, last, {fmt::format("layer{}", i), heads, 4 * hidden, rate, false});
  if (settings.text("head") == "span")
    add_span_head(*graph, last);
  else
    add_head(*graph, last, tokens, context.classes, settings.flag("tied"));
  return graph;
}

const Registration<ModelEntry> registration{
    {{"bert",
      "masked language model, a transformer encoder",
      "arXiv:1810.04805, section 3",
      {SettingSpec::integer("layers", 4, "encoder blocks", 1),
       SettingSpec::integer("hidden", 256,
                            "width of a token's vector; the feed-forward part of a block has 4 times as many units", 1),
       SettingSpec::integer("heads", 4, "attention heads of a block; must divide hidden", 1),
       SettingSpec::integer("max_steps", 512, "length of the longest sequence in tokens", 1),
       SettingSpec::number("dropout", 0.1, "dropout rate of the embedding and of the output of each part of a block", 0,
                           0.99),
       SettingSpec::text("head", "masked",
                         "masked: predicts hidden tokens; span: finds answers to questions (data squad)",
                         {"masked", "span"}),
       SettingSpec::flag("tied", true, "true: the output layer uses the embedding's weights (head = masked)")}},
     make_bert,
     InputKind::kTokens}};

}  // namespace
}  // namespace dragonn::layers

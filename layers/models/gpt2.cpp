// SPDX-License-Identifier: MIT
/// Language model: a causal transformer decoder over tokens, GPT-2.
#include <cmath>

#include <fmt/format.h>

#include "layers/models/blocks.h"

namespace dragonn::layers {
namespace {

constexpr double kDeviation = 0.02;
/// The positions' deviation is that of OpenAI's code (model.py), half of the others'.
constexpr double kPositionDeviation = 0.01;
/// The rows of the token table are a multiple of this: 50,257 tokens are 29 * 1733, and products and tiles of such a
/// side are slow or thin.
constexpr std::int64_t kRowMultiple = 64;

/// Sets the output layer, of `rows` columns of which the last `padding` are no token, and the loss, in chunks: the
/// logits of all steps would take as much memory as all blocks.
void add_head(LayerGraph& graph, NodeId last, NodeId tokens, std::int64_t rows, std::int64_t padding, bool tied) {
  graph.add(
      "output",
      linear({.outputs = rows, .bias = false, .weight_init = Initializer::normal(kDeviation), .padding = padding}),
      {last}, tied ? std::optional(tokens) : std::nullopt);
  graph.set_loss(sequence_cross_entropy_loss(), loss_chunk_rows(rows));
}

std::unique_ptr<LayerGraph> make_gpt2(const Settings& settings, const ModelContext& context) {
  require_sequence("gpt2", context, 1);
  const std::int64_t hidden = settings.integer("hidden"), heads = settings.integer("heads");
  const std::int64_t layers = settings.integer("layers"), positions = settings.integer("positions");
  require_heads("gpt2", hidden, heads);
  require_steps("gpt2", context, "positions", positions);
  const double rate = settings.number("dropout");
  const std::int64_t rows = (context.classes + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  const std::int64_t padding = rows - context.classes;
  const Initializer normal = Initializer::normal(kDeviation);
  // Each block adds twice to the residual connections, whose variance so stays that of one addition.
  const Initializer residual = Initializer::normal(kDeviation / std::sqrt(2.0 * static_cast<double>(layers)));
  auto graph = std::make_unique<LayerGraph>(context.sample_shape);
  const NodeId tokens =
      graph->add("embedding", embedding({.tokens = rows, .width = hidden, .weight_init = normal, .padding = padding}),
                 {LayerGraph::input()});
  NodeId last =
      graph->add("position", position_embedding(positions, Initializer::normal(kPositionDeviation)), {tokens});
  last = add_dropout(*graph, "embedding.dropout", rate, last);
  for (std::int64_t i = 0; i < layers; ++i)
    last = add_transformer_block(*graph, last,
                                 {.name = fmt::format("layer{}", i),
                                  .heads = heads,
                                  .feed_forward = 4 * hidden,
                                  .dropout = rate,
                                  .norm_first = true,
                                  .causal = true,
                                  .activation = kernels::Activation::kGeluTanh,
                                  .init = {.inner = normal, .last = residual}});
  last = graph->add("norm", layer_norm(), {last});
  add_head(*graph, last, tokens, rows, padding, settings.flag("tied"));
  return graph;
}

/// Returns the config.json with which Hugging Face's GPT2LMHeadModel.from_pretrained builds the model.
std::string transformers_config(const Settings& settings, const ModelContext& context) {
  constexpr int kEndOfText = 50256;  // in GPT-2's vocabulary, whose last token it is
  const std::string end = context.classes == kEndOfText + 1 ? std::to_string(kEndOfText) : "null";
  std::string text = "{\n";
  const auto add = [&](const char* key, const auto& value) { text += fmt::format("  \"{}\": {},\n", key, value); };
  add("architectures", "[\"GPT2LMHeadModel\"]");
  add("model_type", "\"gpt2\"");
  add("activation_function", "\"gelu_new\"");
  add("n_layer", settings.integer("layers"));
  add("n_embd", settings.integer("hidden"));
  add("n_head", settings.integer("heads"));
  add("n_positions", settings.integer("positions"));
  add("vocab_size", context.classes);
  add("tie_word_embeddings", settings.flag("tied"));
  add("embd_pdrop", settings.number("dropout"));
  add("resid_pdrop", settings.number("dropout"));
  add("attn_pdrop", 0);
  add("bos_token_id", end);
  return text + fmt::format("  \"eos_token_id\": {}\n}}\n", end);
}

const Registration<ModelEntry> registration{
    {{"gpt2",
      "language model, a causal transformer decoder",
      "Radford et al., Language models are unsupervised multitask learners, 2019, section 2.3; openai/gpt-2, model.py",
      {SettingSpec::integer("layers", 12, "decoder blocks", 1),
       SettingSpec::integer("hidden", 768,
                            "width of a token's vector; the feed-forward part of a block has 4 times as many units", 1),
       SettingSpec::integer("heads", 12, "attention heads of a block; must divide hidden", 1),
       SettingSpec::integer("positions", 1024, "length of the longest sequence in tokens", 1),
       SettingSpec::number("dropout", 0.1, "dropout rate of the embedding and of the output of each part of a block", 0,
                           0.99),
       SettingSpec::flag("tied", true, "true: the output layer uses the embedding's weights")}},
     make_gpt2,
     InputKind::kTokens,
     // Hugging Face's names (transformers, GPT2LMHeadModel). The attention's own tensors are masks.
     WeightsForm{.layers = {{"embedding", "transformer.wte"},
                            {"position", "transformer.wpe"},
                            {"layer#.part1.norm", "transformer.h.#.ln_1"},
                            {"", "transformer.h.#.attn"},
                            {"layer#.attention.qkv", "transformer.h.#.attn.c_attn", true},
                            {"layer#.attention.output", "transformer.h.#.attn.c_proj", true},
                            {"layer#.part2.norm", "transformer.h.#.ln_2"},
                            {"layer#.feed_forward.linear1", "transformer.h.#.mlp.c_fc", true},
                            {"layer#.feed_forward.linear2", "transformer.h.#.mlp.c_proj", true},
                            {"norm", "transformer.ln_f"},
                            {"output", "lm_head"}},
                 .prefix = "transformer.",
                 .tied = "output",
                 .owner = "embedding",
                 .config = transformers_config}}};

}  // namespace
}  // namespace dragonn::layers

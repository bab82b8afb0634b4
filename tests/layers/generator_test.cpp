// SPDX-License-Identifier: MIT
#include "layers/generator.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "layers/layers.h"
#include "tests/layers/graph_harness.h"

namespace dragonn::layers {
namespace {

using test::GraphHarness;

constexpr std::int64_t kVocabulary = 13, kWidth = 12, kHeads = 3;

/// A decoder of two blocks, with the layers that make it look back in front of others that do not.
std::unique_ptr<LayerGraph> decoder(std::int64_t steps) {
  auto graph = std::make_unique<LayerGraph>(Shape{steps});
  const NodeId tokens =
      graph->add("embedding", embedding({.tokens = kVocabulary, .width = kWidth}), {LayerGraph::input()});
  NodeId last = graph->add("position", position_embedding(steps + 1), {tokens});
  for (const std::string block : {"first", "second"}) {
    const NodeId before = last;
    last = graph->add(block + ".norm", layer_norm(), {last});
    last = graph->add(block + ".qkv", linear({.outputs = 3 * kWidth}), {last});
    last = graph->add(block + ".attention", attention(kHeads, true), {last});
    last = graph->add(block + ".dropout", dropout(0.5), {last});
    last = graph->add(block + ".add", residual_add(false), {last, before});
    last = graph->add(block + ".gelu", activation(kernels::Activation::kGelu), {last});
  }
  graph->add("output", linear({.outputs = kVocabulary}), {last}, tokens);
  graph->set_loss(sequence_cross_entropy_loss());
  return graph;
}

std::vector<std::int32_t> some_tokens(std::int64_t count) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(i * i % kVocabulary));
  return tokens;
}

/// The logits of a whole text in one forward pass.
struct WholeText {
  explicit WholeText(std::int64_t steps)
      : harness(decoder(steps), 1, {}, Mode::kEvaluate, false), tokens(some_tokens(steps)) {
    harness.set_random_parameters();
    logits = harness.forward({tokens.begin(), tokens.end()});
  }
  Generator generator() { return {harness.plan().graph(), harness.arena(), static_cast<std::int64_t>(tokens.size())}; }
  /// The largest difference from the logits behind the first `count` tokens, relative to the largest of these.
  double error(std::span<const float> given, std::size_t count) const {
    const auto expected = std::span(logits).subspan((count - 1) * kVocabulary, kVocabulary);
    REQUIRE(given.size() == expected.size());
    double difference = 0, largest = 1;
    for (std::size_t i = 0; i < given.size(); ++i) {
      REQUIRE(std::isfinite(given[i]));
      difference = std::max(difference, std::abs(double{given[i]} - expected[i]));
      largest = std::max(largest, std::abs(double{expected[i]}));
    }
    return difference / largest;
  }

  GraphHarness harness;
  std::vector<std::int32_t> tokens;
  std::vector<float> logits;
};

/// Returns why a graph cannot continue a text.
std::string refusal(Layer layer, const Shape& sample = {4}) {
  auto graph = std::make_unique<LayerGraph>(sample);
  NodeId last = LayerGraph::input();
  if (sample.rank() == 1) last = graph->add("embedding", embedding({.tokens = kVocabulary, .width = kWidth}), {last});
  graph->add("layer", std::move(layer), {last});
  graph->set_loss(sequence_cross_entropy_loss());
  GraphHarness harness(std::move(graph), 1, {}, Mode::kEvaluate, false);
  try {
    Generator(harness.plan().graph(), harness.arena(), sample[0]);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("layers") {
  TEST_CASE("a text in pieces of any size has the logits of one forward pass") {
    WholeText text(11);
    for (std::size_t first = 1; first <= 11; ++first)
      for (std::size_t piece = 1; piece <= 11; ++piece) {
        Generator generator = text.generator();
        CHECK(generator.longest() == 11);
        CHECK(text.error(generator.append(std::span(text.tokens).first(first)), first) < 1e-5);
        while (generator.size() < 11) {
          const std::size_t begin = generator.size(), count = std::min(piece, 11 - begin);
          CHECK(text.error(generator.append(std::span(text.tokens).subspan(begin, count)), begin + count) < 1e-5);
        }
      }
  }

  TEST_CASE("a long text goes in at once, and another one starts without the first") {
    WholeText text(300);
    Generator generator = text.generator();
    CHECK(text.error(generator.append(text.tokens), 300) < 1e-5);
    generator.clear();
    CHECK(generator.size() == 0);
    CHECK(text.error(generator.append(std::span(text.tokens).first(7)), 7) < 1e-5);
    CHECK(text.error(generator.append(std::span(text.tokens).subspan(7, 1)), 8) < 1e-5);
  }

  TEST_CASE("a text becomes neither too long nor has other tokens") {
    WholeText text(4);
    Generator generator = text.generator();
    generator.append(std::span(text.tokens).first(3));
    CHECK_THROWS_WITH_AS(generator.append(std::span(text.tokens).first(2)),
                         doctest::Contains("a text of 3 + 2 tokens, and at most 4"), ShapeError);
    CHECK_THROWS_WITH_AS(generator.append(std::vector<std::int32_t>{13}), doctest::Contains("13"), DataError);
    CHECK(text.error(generator.append(std::span(text.tokens).last(1)), 4) < 1e-5);
    CHECK_THROWS_WITH_AS(Generator(text.harness.plan().graph(), text.harness.arena(), 6),
                         doctest::Contains("takes no sequence of 6"), ShapeError);
  }

  TEST_CASE("a model that looks ahead cannot continue a text, and the layer is named") {
    CHECK(refusal(attention(2, true)) == "");
    CHECK(refusal(attention(2, false)).starts_with("layer layer (attention, 2 heads) cannot continue a text"));
    CHECK(refusal(recurrent({.hidden = 3})).starts_with("layer layer ("));
    CHECK(refusal(swap_axes()).starts_with("layer layer (swap axes)"));
    CHECK(refusal(linear({.outputs = 3}), {4, 5}).starts_with("the model does not take tokens"));
  }
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// Losses that run in chunks of rows, against the same loss of all rows at once.
#include <array>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "layers/graph.h"
#include "layers/layers.h"
#include "layers/network.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/devices.h"

namespace dragonn::layers {
namespace {

using Labels = std::vector<std::int32_t>;
constexpr std::size_t kBatch = 3, kSteps = 5, kRows = kBatch * kSteps;
constexpr std::int64_t kTokens = 11;

/// A small network over tokens. @param chunk_rows 0: the whole loss.
struct Form {
  bool tied = true, bias = false;
  std::size_t chunk_rows = 0;
  double smoothing = 0;
  std::int64_t padding = 0;
};
Network make(const Form& form, const Device& device) {
  omp_set_num_threads(1);
  auto graph = std::make_unique<LayerGraph>(Shape{kSteps});
  const NodeId tokens =
      graph->add("embedding", embedding({.tokens = kTokens + form.padding, .width = 8, .padding = form.padding}),
                 {LayerGraph::input()});
  NodeId last = graph->add("hidden", linear({.outputs = 8}), {tokens});
  last = graph->add("gelu", activation(kernels::Activation::kGelu), {last});
  graph->add("output", linear({.outputs = kTokens + form.padding, .bias = form.bias, .padding = form.padding}), {last},
             form.tied ? std::optional(tokens) : std::nullopt);
  graph->set_loss(sequence_cross_entropy_loss(), form.chunk_rows);
  Network network(std::move(graph), form.smoothing, device);
  network.initialize(1);
  return network;
}

/// Tokens of which some occur twice, and labels of which some are ignored.
struct Batch {
  Batch() {
    for (std::size_t i = 0; i < kRows; ++i) {
      tokens.push_back(static_cast<float>(i * 7 % kTokens));
      labels.push_back(i % 4 == 1 ? kIgnoredLabel : static_cast<std::int32_t>(i * 5 % kTokens));
    }
  }
  NetworkBatch view() const { return {View<const float>(tokens), {View<const std::int32_t>(labels), {}}, kBatch}; }

  std::vector<float> tokens;
  Labels labels;
};

struct Step {
  LossResult training, evaluation;
  std::vector<float> gradients, logits;
  std::vector<ParameterId> order;
};
Step run(const Form& form, const Device& device) {
  Network network = make(form, device);
  const Batch batch;
  Step step;
  step.evaluation = network.forward(batch.view(), Mode::kEvaluate);
  step.training = network.forward(batch.view(), Mode::kTrain);
  network.backward([&](ParameterId id) { step.order.push_back(id); });
  step.gradients = dragonn::test::to_host(network.arena().gradients());
  CHECK(network.logits_shape() == Shape{kBatch, kSteps, kTokens});
  step.logits = dragonn::test::to_host(network.logits());
  return step;
}

void check_near(const std::vector<float>& values, const std::vector<float>& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-4).scale(0.01));
  }
}

void check_same(const LossResult& result, const LossResult& expected) {
  CHECK(result.loss_sum == doctest::Approx(expected.loss_sum).epsilon(1e-6));
  CHECK(result.correct == expected.correct);
  CHECK(result.count == expected.count);
}

}  // namespace

TEST_SUITE("layers") {
  DRAGONN_DEVICE_TEST("a loss in chunks of any size has the results of the whole one") {
    for (const bool tied : {false, true})
      for (const bool bias : {false, true})
        for (const std::size_t rows : std::array<std::size_t, 5>{1, 4, 7, 15, 100}) {
          CAPTURE(tied);
          CAPTURE(bias);
          CAPTURE(rows);
          const Step whole = run({tied, bias, 0, 0.1}, device), chunked = run({tied, bias, rows, 0.1}, device);
          check_same(chunked.training, whole.training);
          check_same(chunked.evaluation, whole.evaluation);
          CHECK(chunked.evaluation.loss_sum != chunked.training.loss_sum);  // which alone is smoothed
          check_near(chunked.gradients, whole.gradients);
          check_near(chunked.logits, whole.logits);
          CHECK(chunked.order == whole.order);
        }
  }

  DRAGONN_DEVICE_TEST("columns that pad take no part in a loss, whole or in chunks") {
    constexpr std::int64_t kPadding = 5;
    for (const bool tied : {true, false}) {
      const Step plain = run({.tied = tied, .smoothing = 0.1}, device);
      for (const std::size_t rows : std::array<std::size_t, 2>{0, 4}) {
        CAPTURE(tied);
        CAPTURE(rows);
        const Form form{.tied = tied, .chunk_rows = rows, .smoothing = 0.1, .padding = kPadding};
        const Step padded = run(form, device);
        check_same(padded.training, plain.training);
        check_same(padded.evaluation, plain.evaluation);
        check_near(padded.logits, plain.logits);
        const Network wide = make(form, device), narrow = make({.tied = tied}, device);
        for (ParameterId id = 0; id < wide.arena().parameters().size(); ++id) {
          const Parameter &of = wide.arena()[id], &like = narrow.arena()[id];
          const auto gradient = std::span(padded.gradients).subspan(of.offset, of.size);
          const auto expected = std::span(plain.gradients).subspan(like.offset, like.size);
          check_near({gradient.begin(), gradient.begin() + static_cast<std::ptrdiff_t>(like.size)},
                     {expected.begin(), expected.end()});
          for (const float value : gradient.subspan(like.size)) CHECK(value == 0);
        }
      }
    }
  }

  DRAGONN_DEVICE_TEST("a loss in chunks takes one class per sample, another number of steps, and lengths") {
    const auto classify = [&](std::size_t chunk_rows) {
      auto graph = std::make_unique<LayerGraph>(Shape{6});
      graph->add("output", linear({.outputs = 4}), {LayerGraph::input()});
      graph->set_loss(softmax_cross_entropy_loss(), chunk_rows);
      Network network(std::move(graph), 0, device);
      network.initialize(1);
      const std::vector<float> inputs = test::random_values(5 * 6, 1);
      const Labels labels{0, 3, 2, 1, 1};
      network.forward(View<const float>(inputs), View<const std::int32_t>(labels), 5, Mode::kTrain);
      network.backward();
      return dragonn::test::to_host(network.arena().gradients());
    };
    check_near(classify(2), classify(0));

    Network network = make({.chunk_rows = 4}, device), whole = make({}, device);
    Batch batch;
    const Labels lengths{2, 0, 1};
    NetworkBatch shorter = batch.view();
    shorter.inputs = shorter.inputs.subview(0, 6);
    shorter.targets.labels = shorter.targets.labels.subview(0, 6);
    shorter.lengths = View<const std::int32_t>(lengths);
    shorter.steps = 2;
    check_same(network.forward(shorter, Mode::kTrain), whole.forward(shorter, Mode::kTrain));
    CHECK(network.logits().size() == 6 * kTokens);
  }

  TEST_CASE("a loss in chunks names a bad label by its row in the batch, and needs as many as there are rows") {
    Network network = make({.chunk_rows = 4}, {});
    Batch batch;
    batch.labels[9] = kTokens;
    CHECK_THROWS_WITH_AS(network.forward(batch.view(), Mode::kTrain), doctest::Contains("label 11 of row 9"),
                         DataError);
    batch.labels.pop_back();
    CHECK_THROWS_WITH_AS(network.forward(batch.view(), Mode::kTrain), doctest::Contains("a loss of 15 rows with 14"),
                         ShapeError);
  }

  TEST_CASE("only a last layer and a loss that work row by row run in chunks") {
    const auto network_of = [](Layer last, Loss loss) {
      auto graph = std::make_unique<LayerGraph>(Shape{4});
      graph->add("output", std::move(last), {LayerGraph::input()});
      graph->set_loss(std::move(loss), 2);
      return Network(std::move(graph), 0);
    };
    CHECK_NOTHROW(network_of(linear({.outputs = 3}), softmax_cross_entropy_loss()));
    CHECK_THROWS_WITH_AS(network_of(activation(kernels::Activation::kRelu), softmax_cross_entropy_loss()),
                         doctest::Contains("ends in ReLU does not run in chunks"), ShapeError);
    CHECK_THROWS_WITH_AS(network_of(linear({.outputs = 3}), multi_label_loss()),
                         doctest::Contains("the multi-label loss of a network that ends in linear"), ShapeError);
  }

  TEST_CASE("chunks save the memory of all logits, and of a second gradient of a tied parameter") {
    constexpr std::size_t kWords = 500, kLength = 20, kLogitBytes = kLength * kWords * sizeof(float);
    constexpr std::size_t kWeightBytes = 8 * kWords * sizeof(float);
    const auto bytes = [](bool tied, std::size_t chunk_rows) {
      auto graph = std::make_unique<LayerGraph>(Shape{kLength});
      const NodeId tokens = graph->add("embedding", embedding({.tokens = kWords, .width = 8}), {LayerGraph::input()});
      graph->add("output", linear({.outputs = kWords}), {tokens}, tied ? std::optional(tokens) : std::nullopt);
      graph->set_loss(sequence_cross_entropy_loss(), chunk_rows);
      const MemoryEstimate memory = Network(std::move(graph), 0).memory(1);
      return memory.activations + memory.workspace;
    };
    CHECK(bytes(false, 0) > 2 * kLogitBytes);
    CHECK(bytes(false, 1) < kLogitBytes / 4);
    CHECK(bytes(true, 1) < kWeightBytes / 2);
  }
}

}  // namespace dragonn::layers

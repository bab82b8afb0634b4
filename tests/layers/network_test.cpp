// SPDX-License-Identifier: MIT
#include "layers/network.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "kernels/nn/elementwise.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/devices.h"

namespace dragonn::layers {
namespace {

struct Batch {
  explicit Batch(const Network& network, std::size_t samples, std::uint64_t seed = 1)
      : inputs(test::random_values(samples * network.sample_shape().size(), seed)), labels(samples) {
    for (std::size_t i = 0; i < samples; ++i) labels[i] = static_cast<std::int32_t>(i % 3);
  }
  LossResult forward(Network& network, Mode mode = Mode::kTrain, std::uint64_t step = 0, int rank = 0) const {
    return network.forward(View<const float>(inputs), View<const std::int32_t>(labels), labels.size(), mode, step,
                           rank);
  }

  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
};

Network small_network(double smoothing = 0, double drop = 0, const Device& device = {}) {
  auto graph = std::make_unique<LayerGraph>(Shape{6, 5, 3});
  NodeId last = graph->add("conv", convolution(square_convolution(8, 3, 1, 1)), {LayerGraph::input()});
  last = graph->add("norm", batch_norm({.relu = true}), {last});
  last = graph->add("pool", global_average_pooling(), {last});
  last = graph->add("flatten", flatten(), {last});
  if (drop > 0) last = graph->add("dropout", dropout(drop), {last});
  graph->add("output", linear({.outputs = 3}), {last});
  return Network(std::move(graph), smoothing, device);
}

std::vector<float> copy(View<const float> view) {
  return dragonn::test::to_host(view);
}

void descend(Network& network, float rate) {
  std::vector<float> values = copy(network.arena().values());
  const std::vector<float> gradients = copy(network.arena().gradients());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= rate * gradients[i];
  kernels::copy(View<const float>(values), network.arena().values());
}

}  // namespace

TEST_SUITE("layers") {
  DRAGONN_DEVICE_TEST("a network learns its batch") {
    Network network = small_network(0, 0, device);
    network.initialize(1);
    const Batch batch(network, 6);
    const double before = batch.forward(network).loss_sum;
    for (int step = 0; step < 60; ++step) {
      batch.forward(network);
      network.backward();
      descend(network, 0.5f);
    }
    const LossResult after = batch.forward(network);
    CHECK(after.loss_sum < before / 3);
    CHECK(after.correct == 6);
    CHECK(after.count == 6);
  }

  DRAGONN_DEVICE_TEST("equal seeds give equal bits, other seeds other parameters") {
    Network a = small_network(0, 0, device), b = small_network(0, 0, device);
    a.initialize(5);
    b.initialize(5);
    const Batch batch(a, 4);
    CHECK(batch.forward(a).loss_sum == batch.forward(b).loss_sum);
    a.backward();
    b.backward();
    CHECK(copy(a.arena().values()) == copy(b.arena().values()));
    CHECK(copy(a.arena().gradients()) == copy(b.arena().gradients()));
    b.initialize(6);
    CHECK(copy(a.arena().values()) != copy(b.arena().values()));
  }

  DRAGONN_DEVICE_TEST("another batch size in between changes nothing") {
    Network plain = small_network(0, 0, device), mixed = small_network(0, 0, device);
    plain.initialize(5);
    mixed.initialize(5);
    const Batch batch(plain, 3), larger(plain, 7, 2);
    larger.forward(mixed);
    larger.forward(mixed, Mode::kEvaluate);
    const double loss = batch.forward(plain).loss_sum;
    plain.backward();
    for (int repeat = 0; repeat < 2; ++repeat) {
      CHECK(batch.forward(mixed).loss_sum == loss);
      mixed.backward();
      CHECK(copy(mixed.arena().gradients()) == copy(plain.arena().gradients()));
      larger.forward(mixed);
    }
  }

  TEST_CASE("the gradient is that of the mean over the batch") {
    // Without batch norm, samples are independent: a batch of two equal samples has the gradient of one.
    auto graph = std::make_unique<LayerGraph>(Shape{4});
    graph->add("output", linear({.outputs = 3}), {LayerGraph::input()});
    Network network(std::move(graph), 0.1);
    network.initialize(1);
    Batch one(network, 1);
    one.forward(network);
    network.backward();
    const std::vector<float> expected = copy(network.arena().gradients());
    one.inputs.insert(one.inputs.end(), one.inputs.begin(), one.inputs.begin() + 4);
    one.labels.push_back(one.labels[0]);
    one.forward(network);
    network.backward();
    const std::vector<float> gradients = copy(network.arena().gradients());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(gradients[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }

  DRAGONN_DEVICE_TEST("evaluation uses running statistics, does not change them, and smooths no labels") {
    Network network = small_network(0.2, 0, device);
    network.initialize(1);
    REQUIRE(network.statistics().size() == 16);
    CHECK(copy(network.statistics())[8] == 1.0f);
    const Batch batch(network, 4);
    batch.forward(network, Mode::kEvaluate);
    const std::vector<float> fresh = copy(network.logits());
    batch.forward(network);
    const std::vector<float> statistics = copy(network.statistics());
    CHECK(statistics[8] != 1.0f);
    const double loss = batch.forward(network, Mode::kEvaluate).loss_sum;
    CHECK(copy(network.logits()) != fresh);
    CHECK(copy(network.statistics()) == statistics);
    double expected = 0;
    const std::vector<float> logits = copy(network.logits());
    for (std::size_t row = 0; row < 4; ++row) {
      double sum = 0;
      for (std::size_t c = 0; c < 3; ++c) sum += std::exp(static_cast<double>(logits[3 * row + c]));
      expected += std::log(sum) - logits[3 * row + static_cast<std::size_t>(batch.labels[row])];
    }
    CHECK(loss == doctest::Approx(expected));
    CHECK_THROWS_WITH(network.backward(), doctest::Contains("evaluation"));
  }

  TEST_CASE("dropout draws differ by step and rank and repeat for the same key") {
    Network network = small_network(0, 0.5);
    network.initialize(1);
    const Batch batch(network, 4);
    const double loss = batch.forward(network, Mode::kTrain, 3, 1).loss_sum;
    CHECK(batch.forward(network, Mode::kTrain, 4, 1).loss_sum != loss);
    CHECK(batch.forward(network, Mode::kTrain, 3, 2).loss_sum != loss);
    CHECK(batch.forward(network, Mode::kTrain, 3, 1).loss_sum == loss);
  }

  TEST_CASE("bad batches are refused by name") {
    Network network = small_network();
    CHECK_THROWS_WITH(Batch(network, 2).forward(network), doctest::Contains("before initialize"));
    network.initialize(1);
    Batch batch(network, 2);
    batch.labels[1] = 3;
    CHECK_THROWS_WITH_AS(batch.forward(network), doctest::Contains("label 3 of row 1"), DataError);
    batch.inputs.pop_back();
    CHECK_THROWS_AS(batch.forward(network), ShapeError);
  }

  TEST_CASE("summary and memory add up") {
    const Network network = small_network();
    std::size_t parameters = 0;
    for (const LayerSummary& layer : network.summary()) parameters += layer.parameters;
    CHECK(parameters == network.arena().size());
    CHECK(network.summary()[0].kind == "convolution 3x3");
    CHECK(network.summary()[0].forward_flops == 2.0 * 30 * 8 * 27);
    const MemoryEstimate memory = network.memory(4);
    CHECK(memory.parameters == 4 * parameters);
    CHECK(memory.gradients == memory.parameters);
    // The input and the convolution's output at least; nothing behind the batch norm reads its output in backward.
    CHECK(memory.activations >= 4 * 4 * (90 + 240));
    CHECK(memory.activations < 4 * 4 * (90 + 240 + 240));
  }

  TEST_CASE("initial values have the deviation that was asked for") {
    std::vector<float> values(40000);
    Rng stream(3, "test");
    const auto deviation = [&](const Initializer& initializer) {
      initializer.fill(values, stream);
      double squares = 0;
      for (float value : values) squares += static_cast<double>(value) * value;
      return std::sqrt(squares / static_cast<double>(values.size()));
    };
    // The sample deviation of 40,000 draws is within 2 % (five of its own deviations).
    CHECK(deviation(Initializer::he_normal(50)) == doctest::Approx(0.2).epsilon(0.02));
    CHECK(deviation(Initializer::xavier_uniform(30, 20)) == doctest::Approx(0.2).epsilon(0.02));
    CHECK(deviation(Initializer::fan_in_uniform(27)) == doctest::Approx(1.0 / 9).epsilon(0.02));
  }
}

}  // namespace dragonn::layers

// SPDX-License-Identifier: MIT
/// Recurrent layers and embeddings: gradients through time, states, lengths, and values against a plain loop.
#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include "layers/layers.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/devices.h"
#include "tests/support/tolerance.h"

namespace dragonn::layers {
namespace {

using test::GraphHarness;

// As in gradient_test.cpp.
constexpr double kTolerance = 2e-3;

constexpr std::size_t kBatch = 3;
constexpr std::int64_t kSteps = 5, kInputs = 4, kHidden = 3;

std::unique_ptr<LayerGraph> graph_of(const RecurrentSettings& settings, std::int64_t steps = kSteps) {
  auto graph = std::make_unique<LayerGraph>(Shape{steps, kInputs});
  graph->add("layer", recurrent(settings), {LayerGraph::input()});
  return graph;
}

double gradient_error_of(const Device& device, const RecurrentSettings& settings,
                         const std::vector<std::int32_t>& lengths = {}) {
  GraphHarness harness(graph_of(settings), kBatch, device);
  harness.set_random_parameters();
  harness.set_lengths(lengths);
  harness.initial_states() = test::random_values(harness.initial_states().size(), 6);
  return test::gradient_error(harness, test::random_values(harness.input_size(), 3));
}

const std::vector<kernels::Cell> kCells{kernels::Cell::kLstm, kernels::Cell::kGru};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Computes one direction by the definition, in double. Returns [batch, steps, hidden]; updates `hidden` and `cell`.
std::vector<double> reference_lstm(GraphHarness& harness, const std::vector<float>& input, std::vector<double>& hidden,
                                   std::vector<double>& cell) {
  const std::vector<float> parameters[] = {harness.value(0), harness.value(1), harness.value(2), harness.value(3)};
  const auto value = [&](ParameterId id, std::size_t index) { return static_cast<double>(parameters[id][index]); };
  std::vector<double> output;
  for (std::size_t sample = 0; sample < kBatch; ++sample)
    for (std::size_t t = 0; t < kSteps; ++t) {
      double gates[4 * kHidden];
      for (std::size_t g = 0; g < 4 * kHidden; ++g) {
        gates[g] = value(2, g) + value(3, g);
        for (std::size_t i = 0; i < kInputs; ++i)
          gates[g] += value(0, g * kInputs + i) * input[(sample * kSteps + t) * kInputs + i];
        for (std::size_t i = 0; i < kHidden; ++i) gates[g] += value(1, g * kHidden + i) * hidden[sample * kHidden + i];
      }
      for (std::size_t unit = 0; unit < kHidden; ++unit) {
        double& c = cell[sample * kHidden + unit];
        c = sigmoid(gates[kHidden + unit]) * c + sigmoid(gates[unit]) * std::tanh(gates[2 * kHidden + unit]);
        output.push_back(sigmoid(gates[3 * kHidden + unit]) * std::tanh(c));
      }
      for (std::size_t unit = 0; unit < kHidden; ++unit)
        hidden[sample * kHidden + unit] = output[output.size() - kHidden + unit];
    }
  return output;
}

/// Computes a GRU with gates r, z, n by the definition likewise.
std::vector<double> reference_gru(GraphHarness& harness, const std::vector<float>& input, std::vector<double>& hidden) {
  const std::vector<float> parameters[] = {harness.value(0), harness.value(1), harness.value(2), harness.value(3)};
  const auto value = [&](ParameterId id, std::size_t index) { return static_cast<double>(parameters[id][index]); };
  std::vector<double> output;
  for (std::size_t sample = 0; sample < kBatch; ++sample)
    for (std::size_t t = 0; t < kSteps; ++t) {
      double from_input[3 * kHidden], from_hidden[3 * kHidden];
      for (std::size_t g = 0; g < 3 * kHidden; ++g) {
        from_input[g] = value(2, g);
        from_hidden[g] = value(3, g);
        for (std::size_t i = 0; i < kInputs; ++i)
          from_input[g] += value(0, g * kInputs + i) * input[(sample * kSteps + t) * kInputs + i];
        for (std::size_t i = 0; i < kHidden; ++i)
          from_hidden[g] += value(1, g * kHidden + i) * hidden[sample * kHidden + i];
      }
      for (std::size_t unit = 0; unit < kHidden; ++unit) {
        const double reset = sigmoid(from_input[unit] + from_hidden[unit]);
        const double update = sigmoid(from_input[kHidden + unit] + from_hidden[kHidden + unit]);
        const double candidate = std::tanh(from_input[2 * kHidden + unit] + reset * from_hidden[2 * kHidden + unit]);
        double& h = hidden[sample * kHidden + unit];
        h = (1 - update) * candidate + update * h;
        output.push_back(h);
      }
    }
  return output;
}

/// Returns the outputs and states of a layer, and the gradients of its input and of all parameters.
std::vector<std::vector<float>> results_of(GraphHarness& harness) {
  harness.set_random_parameters();
  harness.initial_states() = test::random_values(harness.initial_states().size(), 6);
  std::vector<std::vector<float>> results{harness.forward(test::random_values(harness.input_size(), 3))};
  results.push_back(harness.final_states());
  harness.backward(test::random_values(results[0].size(), 9));
  results.push_back(harness.input_gradient());
  for (const Parameter& parameter : harness.arena().parameters()) results.push_back(harness.gradient(parameter.name));
  return results;
}

/// Returns ||found - expected|| / ||expected||.
double relative_distance(const std::vector<float>& found, const std::vector<float>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

/// Returns whether a GPU's library takes all steps of a layer in one call; reports it as a skipped test if not.
bool is_fused(GraphHarness& harness) {
  const std::vector<LayerDescription> layers = harness.plan().describe();
  const bool fused = !layers.empty() && layers[0].passes[0].algorithm == kernels::kFusedRecurrent;
  if (!fused) MESSAGE("skipped: no cuDNN takes all steps of a recurrent layer here");
  return fused;
}

}  // namespace

TEST_SUITE("layers") {
  DRAGONN_DEVICE_TEST("all steps in one call are the steps one by one, with the same bits every time") {
    if (device.is_cpu()) return;
    for (const kernels::Cell cell : kCells)
      for (const std::int64_t hidden : {kHidden, std::int64_t{32}}) {
        const RecurrentSettings settings{.cell = cell, .hidden = hidden, .carries_state = true};
        GraphHarness fused(graph_of(settings), kBatch, device), stepped(graph_of(settings), kBatch, device);
        if (!is_fused(fused)) return;
        stepped.set_lengths(std::vector<std::int32_t>(kBatch, kSteps));  // with lengths each step is on its own
        const auto found = results_of(fused), expected = results_of(stepped);
        CHECK(results_of(fused) == found);
        // Every step, forth and back, adds the error of a product to that of the steps before.
        const double tolerance =
            2 * kSteps *
            dragonn::test::product_tolerance(kernels::DeviceMath::kFloat32, static_cast<std::size_t>(kInputs + hidden));
        for (std::size_t i = 0; i < expected.size(); ++i) {
          CAPTURE(i);
          CHECK(relative_distance(found[i], expected[i]) < tolerance);
        }
      }
  }

  DRAGONN_DEVICE_TEST("a GRU computes its definition and hands its state on") {
    GraphHarness harness(graph_of({.cell = kernels::Cell::kGru, .hidden = kHidden, .carries_state = true}), kBatch,
                         device);
    harness.set_random_parameters();
    harness.initial_states() = test::random_values(kBatch * kHidden, 6);
    const std::vector<float> input = test::random_values(harness.input_size(), 3);
    const std::vector<float> output = harness.forward(input);
    std::vector<double> hidden(harness.initial_states().begin(), harness.initial_states().end());
    const std::vector<double> expected = reference_gru(harness, input, hidden);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(output[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    for (std::size_t i = 0; i < hidden.size(); ++i)
      CHECK(harness.final_states()[i] == doctest::Approx(hidden[i]).epsilon(1e-5));
  }

  DRAGONN_DEVICE_TEST("an LSTM computes its definition and hands its state on") {
    GraphHarness harness(graph_of({.hidden = kHidden, .carries_state = true}), kBatch, device);
    harness.set_random_parameters();
    harness.initial_states() = test::random_values(2 * kBatch * kHidden, 6);
    const std::vector<float> input = test::random_values(harness.input_size(), 3);
    const std::vector<float> output = harness.forward(input);
    const auto middle = harness.initial_states().begin() + kBatch * kHidden;
    std::vector<double> hidden(harness.initial_states().begin(), middle), cell(middle, harness.initial_states().end());
    const std::vector<double> expected = reference_lstm(harness, input, hidden, cell);
    // Five steps of sums of ten float32 products.
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(output[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      CHECK(harness.final_states()[i] == doctest::Approx(hidden[i]).epsilon(1e-5));
      CHECK(harness.final_states()[hidden.size() + i] == doctest::Approx(cell[i]).epsilon(1e-5));
    }
  }

  DRAGONN_DEVICE_TEST("the gradients of recurrent layers through time are right, from any carried state") {
    for (const kernels::Cell cell : kCells) {
      CHECK(gradient_error_of(device, {.cell = cell, .hidden = kHidden}) < kTolerance);
      CHECK(gradient_error_of(device, {.cell = cell, .hidden = kHidden, .carries_state = true}) < kTolerance);
    }
  }

  DRAGONN_DEVICE_TEST("the gradients of bidirectional layers and of samples of any length are right") {
    for (const kernels::Cell cell : kCells)
      for (const std::vector<std::int32_t>& lengths : {std::vector<std::int32_t>{}, {5, 2, 1}, {1, 4, 0}}) {
        CAPTURE(lengths.size());
        CHECK(gradient_error_of(device, {.cell = cell, .hidden = kHidden, .carries_state = true}, lengths) <
              kTolerance);
        for (const DirectionJoin join : {DirectionJoin::kConcatenate, DirectionJoin::kSum})
          CHECK(gradient_error_of(device, {.cell = cell, .hidden = kHidden, .bidirectional = true, .join = join},
                                  lengths) < kTolerance);
      }
  }

  DRAGONN_DEVICE_TEST("two windows with carried state are one window of twice the steps") {
    for (const kernels::Cell cell : kCells) {
      const RecurrentSettings settings{.cell = cell, .hidden = kHidden, .carries_state = true};
      GraphHarness whole(graph_of(settings, 2 * kSteps), 1, device), half(graph_of(settings), 1, device);
      whole.set_random_parameters();
      half.set_random_parameters();
      const std::vector<float> input = test::random_values(whole.input_size(), 3);
      const auto middle = input.begin() + static_cast<std::ptrdiff_t>(input.size() / 2);
      std::vector<float> output = half.forward({input.begin(), middle});
      half.initial_states() = half.final_states();
      const std::vector<float> second = half.forward({middle, input.end()});
      output.insert(output.end(), second.begin(), second.end());
      // The products of another number of rows may round differently.
      const std::vector<float> expected = whole.forward(input);
      for (std::size_t i = 0; i < output.size(); ++i) CHECK(output[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    }
  }

  DRAGONN_DEVICE_TEST("padding changes neither outputs, states nor gradients") {
    for (const bool bidirectional : {false, true}) {
      const RecurrentSettings settings{
          .hidden = kHidden, .bidirectional = bidirectional, .carries_state = !bidirectional};
      GraphHarness tight(graph_of(settings, 3), 1, device), padded(graph_of(settings, 5), 1, device);
      tight.set_random_parameters();
      padded.set_random_parameters();
      padded.set_lengths({3});
      const std::vector<float> input = test::random_values(3 * kInputs, 3);
      std::vector<float> long_input = input;
      long_input.resize(5 * kInputs, 1e3f);
      const std::vector<float> expected = tight.forward(input), output = padded.forward(long_input);
      const std::size_t width = expected.size() / 3;
      for (std::size_t i = 0; i < output.size(); ++i)
        CHECK(output[i] == doctest::Approx(i < 3 * width ? expected[i] : 0.0).epsilon(1e-5));
      for (std::size_t i = 0; i < tight.final_states().size(); ++i)
        CHECK(padded.final_states()[i] == doctest::Approx(tight.final_states()[i]).epsilon(1e-5));
      const std::vector<float> weights = test::random_values(expected.size(), 9);
      std::vector<float> long_weights = weights;
      long_weights.resize(5 * width, 1e3f);
      tight.backward(weights);
      padded.backward(long_weights);
      for (const Parameter& parameter : tight.arena().parameters()) {
        CAPTURE(parameter.name);
        const std::vector<float> want = tight.gradient(parameter.name), got = padded.gradient(parameter.name);
        for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-4));
      }
    }
  }

  TEST_CASE("a bidirectional layer cannot carry state") {
    CHECK_THROWS_WITH_AS(recurrent({.hidden = 2, .bidirectional = true, .carries_state = true}),
                         doctest::Contains("bidirectional"), ConfigError);
  }

  DRAGONN_DEVICE_TEST("the gradient of an embedding sums over equal tokens, also tied to the output layer") {
    for (const bool tied : {false, true}) {
      auto graph = std::make_unique<LayerGraph>(Shape{4});
      const NodeId tokens = graph->add("embedding", embedding({.tokens = 5, .width = 3}), {LayerGraph::input()});
      const NodeId hidden = graph->add("tanh", activation(kernels::Activation::kTanh), {tokens});
      graph->add("output", linear({.outputs = 5, .bias = false}), {hidden},
                 tied ? std::optional(tokens) : std::nullopt);
      GraphHarness harness(std::move(graph), 2, device, Mode::kTrain, false);
      CHECK(harness.arena().parameters().size() == (tied ? 1 : 2));
      harness.set_random_parameters();
      CHECK(test::gradient_error(harness, {0, 1, 1, 4, 2, 1, 0, 0}) < kTolerance);
    }
  }

  DRAGONN_DEVICE_TEST("a token out of range is refused by its position") {
    auto graph = std::make_unique<LayerGraph>(Shape{2});
    graph->add("embedding", embedding({.tokens = 5, .width = 3}), {LayerGraph::input()});
    GraphHarness harness(std::move(graph), 1, device, Mode::kTrain, false);
    CHECK_THROWS_WITH_AS(harness.forward({4, 5}),
                         "token 5 at position 1 of the batch: valid are whole numbers from 0 to 4", DataError);
    CHECK_THROWS_AS(harness.forward({-1, 0}), DataError);
    CHECK_THROWS_AS(harness.forward({1.5f, 0}), DataError);
    CHECK_THROWS_AS(harness.forward({std::nanf(""), 0}), DataError);
  }
}

}  // namespace dragonn::layers

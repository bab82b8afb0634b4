// SPDX-License-Identifier: MIT
/// Networks of sequences: carried state, lengths, other numbers of steps, losses, and allocations.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/nn/elementwise.h"
#include "layers/graph.h"
#include "layers/layers.h"
#include "layers/network.h"
#include "tests/layers/graph_harness.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/devices.h"

namespace dragonn::layers {
namespace {

using Labels = std::vector<std::int32_t>;

Network make(const std::string& name, const ModelContext& context,
             const std::vector<std::pair<std::string, SettingValue>>& settings, const Device& device = {}) {
  const ModelEntry& entry = Registry<ModelEntry>::instance().at(name);
  Settings values(entry.settings);
  for (const auto& [key, value] : settings) values.set(key, value);
  Network network(entry.make(values, context), 0.0, device);
  network.initialize(1);
  return network;
}

Network small_language_model(const Device& device = {}) {
  omp_set_num_threads(1);
  return make("lstm_lm", {{6}, 11}, {{"hidden", std::int64_t{16}}, {"layers", std::int64_t{2}}, {"initial_bound", 0.5}},
              device);
}

Network small_speech_model(const Device& device = {}) {
  omp_set_num_threads(1);
  return make("lstm_speech", {{20, 21}, 5},
              {{"hidden", std::int64_t{8}}, {"layers", std::int64_t{2}}, {"channels", std::int64_t{3}}}, device);
}

/// Windows of `steps` tokens from a cycle of 11, and the next token of each as its label.
struct Window {
  Window(std::size_t batch, std::size_t steps, std::size_t start) : size(batch) {
    for (std::size_t row = 0; row < batch; ++row)
      for (std::size_t t = 0; t < steps; ++t) {
        tokens.push_back(static_cast<float>((start + row * 5 + t * 3) % 11));
        labels.push_back(static_cast<std::int32_t>((start + row * 5 + (t + 1) * 3) % 11));
      }
    batch_steps = static_cast<std::int64_t>(steps);
  }
  NetworkBatch batch() const {
    return {View<const float>(tokens), {View<const std::int32_t>(labels), {}}, size, {}, batch_steps};
  }

  std::vector<float> tokens;
  Labels labels;
  std::size_t size;
  std::int64_t batch_steps;
};

std::vector<float> copy(View<const float> view) {
  return dragonn::test::to_host(view);
}

}  // namespace

TEST_SUITE("layers") {
  DRAGONN_DEVICE_TEST("a language model learns a cycle of words") {
    Network network = small_language_model(device);
    CHECK(network.target_kind() == TargetKind::kClassPerStep);
    LossResult result;
    for (std::size_t step = 0; step < 300; ++step) {
      result = network.forward(Window(4, 6, 18 * step).batch(), Mode::kTrain, step);
      network.backward();
      std::vector<float> values = copy(network.arena().values());
      const std::vector<float> gradients = copy(network.arena().gradients());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 2.0f * gradients[i];
      kernels::copy(View<const float>(values), network.arena().values());
    }
    CHECK(result.count == 24);
    CHECK(result.correct == 24);
    CHECK(result.loss_sum / 24 < 0.3);
  }

  DRAGONN_DEVICE_TEST("windows go on from each other until the state is reset, and evaluation has a state of its own") {
    Network whole = small_language_model(device), parts = small_language_model(device);
    const Window both(1, 12, 0), first(1, 6, 0), second(1, 6, 18);
    const double expected = whole.forward(both.batch(), Mode::kEvaluate).loss_sum;
    const double beginning = parts.forward(first.batch(), Mode::kEvaluate).loss_sum;
    parts.forward(first.batch(), Mode::kTrain);  // must not touch the state of the evaluation
    const double rest = parts.forward(second.batch(), Mode::kEvaluate).loss_sum;
    CHECK(beginning + rest == doctest::Approx(expected).epsilon(1e-5));
    CHECK(parts.forward(first.batch(), Mode::kEvaluate).loss_sum != beginning);
    parts.reset_state(Mode::kEvaluate);
    CHECK(parts.forward(first.batch(), Mode::kEvaluate).loss_sum == beginning);
  }

  DRAGONN_DEVICE_TEST("the state can be saved and restored, and belongs to a batch of one size") {
    Network network = small_language_model(device);
    const Window first(2, 6, 0), second(2, 6, 18);
    CHECK(network.state(Mode::kTrain).empty());
    network.forward(first.batch(), Mode::kTrain);
    const std::vector<float> state = copy(network.state(Mode::kTrain));
    CHECK(state.size() == 2 * 2 * 2 * 16);  // layers, hidden and cell, samples, units
    const double loss = network.forward(second.batch(), Mode::kTrain).loss_sum;
    network.set_state(Mode::kTrain, 2, View<const float>(state));
    CHECK(network.forward(second.batch(), Mode::kTrain).loss_sum == loss);
    CHECK_THROWS_WITH_AS(network.forward(Window(3, 6, 0).batch(), Mode::kTrain),
                         doctest::Contains("a batch of 3 samples goes on from the state of 2"), Error);
    network.reset_state(Mode::kTrain);
    CHECK_NOTHROW(network.forward(Window(3, 6, 0).batch(), Mode::kTrain));
    CHECK_THROWS_AS(network.set_state(Mode::kTrain, 3, View<const float>(state)), ShapeError);
  }

  TEST_CASE("a batch of another number of steps keeps the parameters") {
    Network network = small_language_model();
    const std::vector<float> before = copy(network.arena().values());
    network.forward(Window(2, 9, 0).batch(), Mode::kTrain);
    CHECK(network.logits_shape() == Shape{2, 9, 11});
    network.backward();
    network.forward(Window(2, 6, 27).batch(), Mode::kTrain);
    CHECK(network.logits_shape() == Shape{2, 6, 11});
    CHECK(copy(network.arena().values()) == before);
    CHECK_THROWS_AS(
        make("bert", {{8}, 11}, {{"max_steps", std::int64_t{8}}}).forward(Window(1, 9, 0).batch(), Mode::kTrain),
        ShapeError);
  }

  DRAGONN_DEVICE_TEST("a speech model takes padded batches of any length") {
    Network network = small_speech_model(device);
    CHECK(network.target_kind() == TargetKind::kClassSequence);
    const Labels labels{1, 2, 2, 4}, offsets{0, 3, 4}, lengths{30, 7};
    const std::vector<float> frames = test::random_values(2 * 30 * 21, 1);
    const LossResult result = network.forward({View<const float>(frames),
                                               {View<const std::int32_t>(labels), View<const std::int32_t>(offsets)},
                                               2,
                                               View<const std::int32_t>(lengths),
                                               30},
                                              Mode::kTrain);
    network.backward();
    CHECK(std::isfinite(result.loss_sum));
    CHECK(result.count == 2);
    CHECK(network.logits_shape() == Shape{2, 15, 5});
    CHECK(std::ranges::equal(network.logits_lengths(), Labels{15, 4}));
  }

  DRAGONN_DEVICE_TEST("lengths and tokens out of range are refused by name") {
    Network network = small_language_model(device);
    Window window(2, 6, 0);
    NetworkBatch batch = window.batch();
    const Labels lengths{6, 7};
    batch.lengths = View<const std::int32_t>(lengths);
    CHECK_THROWS_WITH_AS(network.forward(batch, Mode::kTrain), doctest::Contains("length 7 of sample 1"), DataError);
    window.tokens[3] = 11;
    CHECK_THROWS_WITH_AS(network.forward(window.batch(), Mode::kTrain), doctest::Contains("token 11 at position 3"),
                         DataError);
    window.tokens[3] = 0;
    window.labels[4] = 11;
    CHECK_THROWS_WITH_AS(network.forward(window.batch(), Mode::kTrain), doctest::Contains("label 11 of row 4"),
                         DataError);
  }

  TEST_CASE("steps of sequences allocate nothing once their shapes were seen") {
    const testing::AllocationCounter counter;
    Network language = small_language_model(), speech = small_speech_model();
    const Labels labels{1, 2, 2, 4}, offsets{0, 3, 4}, lengths{30, 12};
    const std::vector<float> frames = test::random_values(2 * 30 * 21, 1);
    const Targets targets{View<const std::int32_t>(labels), View<const std::int32_t>(offsets)};
    const Window windows[] = {Window(3, 6, 0), Window(3, 4, 18)};
    std::size_t before = 0;
    for (std::size_t step = 0; step < 8; ++step) {
      if (step == 4) before = counter.count();
      language.forward(windows[step % 2].batch(), Mode::kTrain, step);
      language.backward();
      speech.forward({View<const float>(frames), targets, 2, View<const std::int32_t>(lengths), 30}, Mode::kTrain,
                     step);
      speech.backward();
    }
    const std::size_t after = counter.count();
    CHECK(after == before);
  }
}

}  // namespace dragonn::layers

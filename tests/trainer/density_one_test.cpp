// SPDX-License-Identifier: MIT
/// Invariant 4: density 1 is dense, and momentum carries over between dense and sparse phases.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;

constexpr int kWorld = 3;
constexpr std::uint64_t kSteps = 8;
constexpr double kRate = 0.1;

/// Parameters after kSteps of SGD with momentum on random gradients, exchanged by `rules` at `density_of(step)`.
template <class DensityOf>
std::vector<float> train(const exchange::ExchangeRules& rules, DensityOf density_of) {
  std::vector<float> result;
  comm::run_local(kWorld, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena;
    arena.declare("weight", {31, 9}, ParameterRole::kWeight);
    arena.allocate();
    const auto& entry = Registry<optim::OptimizerEntry>::instance().at("sgd");
    Settings settings(entry.settings);
    settings.set("momentum", static_cast<double>(rules.momentum));
    settings.set("weight_decay", 0.01);
    const auto optimizer = entry.make(settings, arena);
    exchange::GradientExchange exchange(rules, arena, communicator);
    StepTimers timers;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Rng rng(5, "density one", {step, static_cast<std::uint64_t>(communicator.rank())});
      for (float& value : arena.gradients().host()) value = rng.normal();
      const auto sums =
          exchange.run({.step = step, .density = density_of(step), .learning_rate = kRate}, arena.gradients(), timers);
      exchange.commit(timers);
      optimizer->begin_step(kRate, step);
      apply_sums(sums, 1.0f, *optimizer);
    }
    if (communicator.rank() == 0) result.assign(arena.values().host().begin(), arena.values().host().end());
  });
  return result;
}

exchange::ExchangeRules dense_rules() {
  exchange::ExchangeRules rules = rules_of({"topk", "allgather", "residual"});
  rules.buckets.compress = false;
  rules.momentum = 0.9f;
  return rules;
}

double largest_relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0, scale = 0;
  for (float value : b) scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest / scale;
}

// Eight steps of float32 sums of three terms in another order, amplified by the momentum.
constexpr double kTolerance = 1e-5;

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("exact selectors at density 1, not bypassed, equal dense training to rounding") {
  const std::vector<float> dense = train(dense_rules(), [](std::uint64_t) { return 1.0; });
  int checked = 0;
  for (const Combination& combination : sparse_combinations()) {
    const auto& sparsifier = Registry<compress::SparsifierEntry>::instance().at(combination.sparsifier);
    if (!sparsifier.exact) continue;
    CAPTURE(combination.name());
    exchange::ExchangeRules rules = rules_of(combination);
    rules.momentum = 0.9f;
    rules.bypass_density_one = false;
    // Masking stops the momentum of what was sent, that is of everything here: not dense training by definition.
    if (rules.memory.settings.contains("masking")) rules.memory.settings.set("masking", false);
    CHECK(largest_relative_difference(train(rules, [](std::uint64_t) { return 1.0; }), dense) < kTolerance);
    ++checked;
  }
  CHECK(checked >= 3);
}

TEST_CASE("density 1 in the basis of the DCT equals dense training to rounding, bypassed and not") {
  const std::vector<float> dense = train(dense_rules(), [](std::uint64_t) { return 1.0; });
  for (const bool bypass : {false, true}) {
    for (const char* sparsifier : {"chunktopk", "topk"}) {
      exchange::ExchangeRules rules = rules_of({sparsifier, "allgather", "residual"});
      rules.momentum = 0.9f;
      rules.dct = true;
      rules.bypass_density_one = bypass;
      CHECK(largest_relative_difference(train(rules, [](std::uint64_t) { return 1.0; }), dense) < kTolerance);
    }
  }
}

TEST_CASE("a dense phase of a sparsified run is dense training, for every memory") {
  const std::vector<float> dense = train(dense_rules(), [](std::uint64_t) { return 1.0; });
  for (const std::string& memory : Registry<compress::MemoryEntry>::instance().names()) {
    CAPTURE(memory);
    exchange::ExchangeRules rules = rules_of({"topk", "allgather", memory});
    rules.momentum = 0.9f;
    CHECK(largest_relative_difference(train(rules, [](std::uint64_t) { return 1.0; }), dense) < kTolerance);
  }
}

TEST_CASE("momentum carries over from a dense phase into a sparse one") {
  // With masking off and everything sent in the end, momentum correction is linear: what is applied after the last
  // dense step is the dense run's, whatever was held back in between.
  const std::vector<float> dense = train(dense_rules(), [](std::uint64_t) { return 1.0; });
  exchange::ExchangeRules rules = rules_of({"topk", "allgather", "momentum_correction"});
  rules.momentum = 0.9f;
  rules.memory.settings.set("masking", false);
  const auto phases = [](std::uint64_t step) { return step == 2 || step == 3 ? 0.05 : 1.0; };
  const std::vector<float> mixed = train(rules, phases);
  // Weight decay acts on parameters that lagged for two steps: 0.01 * 0.1 of their lag.
  CHECK(largest_relative_difference(mixed, dense) < 1e-2);
  const auto forgetful = [](std::uint64_t step) { return step < 4 ? 0.05 : 1.0; };
  CHECK(largest_relative_difference(train(rules, forgetful), dense) < 1e-2);
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing

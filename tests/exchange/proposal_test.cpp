// SPDX-License-Identifier: MIT
/// Tests of a sparsifier's proposal, which the ranks agree on before it selects: the exchange gives rank 0's to all.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"

namespace dragonn::exchange::testing {
namespace {

constexpr std::size_t kSize = 3000;
constexpr double kDensity = 0.01;  // k = 30

std::vector<float> gradient_of(int rank) {
  Rng rng(3, "proposal test", {static_cast<std::uint64_t>(rank)});
  std::vector<float> gradient(kSize);
  for (float& value : gradient) value = rng.normal() * static_cast<float>(rank + 1);
  return gradient;
}

/// The thresholds with which each rank of `world_size` selected in its first steps.
std::vector<std::vector<float>> thresholds(int world_size, std::uint64_t steps) {
  std::vector<std::vector<float>> result(static_cast<std::size_t>(world_size));
  comm::run_local(world_size, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena;
    arena.declare("weight", {kSize, 1}, ParameterRole::kWeight);
    arena.allocate();
    ExchangeRules rules = rules_of({"exdyna", "allgather", "residual"});
    rules.sparsifier.settings.set("first_delta", std::string("topk"));
    GradientExchange exchange(rules, arena, communicator);
    const std::vector<float> gradient = gradient_of(communicator.rank());
    StepTimers timers;
    for (std::uint64_t step = 0; step < steps; ++step) {
      exchange.run({.step = step, .density = kDensity}, std::span<const float>(gradient), timers);
      exchange.commit(timers);
      result[static_cast<std::size_t>(communicator.rank())].push_back(exchange.counts().threshold);
    }
  });
  return result;
}

}  // namespace

TEST_SUITE_BEGIN("exchange");

TEST_CASE("exdyna's first threshold is rank 0's k-th magnitude on all ranks, and theirs stay equal") {
  std::vector<float> magnitudes = gradient_of(0);
  std::ranges::transform(magnitudes, magnitudes.begin(), [](float value) { return std::fabs(value); });
  std::ranges::sort(magnitudes, std::greater<>());
  for (int world_size : kWorlds) {
    CAPTURE(world_size);
    const auto all = thresholds(world_size, 5);
    CHECK(all[0][0] == magnitudes[29]);
    for (const auto& rank : all) CHECK(rank == all[0]);
  }
}

TEST_SUITE_END();

}  // namespace dragonn::exchange::testing

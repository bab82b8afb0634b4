// SPDX-License-Identifier: MIT
/// Ranks that select unlike shares of their entries: how many each sends, and that nothing is lost.
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/error.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"
#include "tests/exchange/sums.h"

namespace dragonn::exchange::testing {
namespace {

constexpr std::size_t kSize = 400;
constexpr int kRanks = 4;

ExchangeRules rules_with(const std::vector<double>& shares, const std::string& sparsifier = "topk",
                         const std::string& collective = "allgather", const std::string& route = "direct") {
  ExchangeRules rules = rules_of({sparsifier, collective, "residual"});
  if (collective == "allgather") rules.collective.settings.set("route", route);
  rules.shares = shares;
  return rules;
}

/// Whole numbers, so that sums are exact, none of them 0.
std::vector<float> gradient_of(int rank) {
  std::vector<float> gradient(kSize);
  Rng rng(5, "shares", {static_cast<std::uint64_t>(rank)});
  for (float& value : gradient) value = static_cast<float>(rng.below(200)) - 100.5f;
  return gradient;
}

struct Results {
  std::vector<std::uint64_t> selected;  ///< in the first step, by rank
  std::vector<float> applied;           ///< on rank 0: the sum of all exchanged sums
};

/// One gradient, and as many steps without any as it takes to send all of it.
Results drain(const ExchangeRules& rules, int steps) {
  Results results;
  comm::run_local(kRanks, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena;
    arena.declare("weight", {20, 20}, ParameterRole::kWeight);
    arena.allocate();
    GradientExchange exchange(rules, arena, communicator);
    StepTimers timers;
    std::vector<float> applied(kSize);
    for (int step = 0; step < steps; ++step) {
      const std::vector<float> gradient = step == 0 ? gradient_of(communicator.rank()) : std::vector<float>(kSize);
      const auto sums = exchange.run({.step = static_cast<std::uint64_t>(step), .density = 0.1},
                                     View<const float>(std::span<const float>(gradient)), timers);
      exchange.commit(timers);
      for (const BucketSum& sum : sums)
        for_each_value(sum, [&](std::size_t place, float value) { applied[place] += value; });
      if (communicator.rank() == 0 && step == 0) results.selected = exchange.counts().selected;
    }
    if (communicator.rank() == 0) results.applied = applied;
  });
  return results;
}

}  // namespace

TEST_SUITE("exchange") {
  TEST_CASE("shares: each rank selects its own, as many in all, and what it keeps is sent later") {
    std::vector<float> whole(kSize);
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<float> gradient = gradient_of(rank);
      for (std::size_t i = 0; i < kSize; ++i) whole[i] += gradient[i];
    }
    for (const char* route : {"ring", "direct"}) {
      const Results results = drain(rules_with({0.1, 1.3, 1.3, 1.3}, "topk", "allgather", route), 110);
      CHECK(results.selected == std::vector<std::uint64_t>{4, 52, 52, 52});
      CHECK(results.applied == whole);
    }
    CHECK(drain(rules_with({}), 11).selected == std::vector<std::uint64_t>(kRanks, 40));
    // A share may reach all entries; the form stays that of the common density.
    CHECK(drain(rules_with({0.1, 0.1, 0.1, 3.7}), 1).selected == std::vector<std::uint64_t>{4, 4, 4, 148});
  }

  TEST_CASE("shares: methods whose ranks must send alike are refused") {
    const std::vector<double> shares{0.1, 1.3, 1.3, 1.3};
    const auto error = [&](const ExchangeRules& rules) {
      try {
        check_rules(rules);
      } catch (const ConfigError& refused) {
        return std::string(refused.what());
      }
      return std::string();
    };
    CHECK(error(rules_with(shares)).empty());
    CHECK(error(rules_with(shares, "topk", "gtopk")).find("does not go with collective 'gtopk'") != std::string::npos);
    CHECK(error(rules_with(shares, "randomk")).find("does not go with sparsifier 'randomk'") != std::string::npos);
    ExchangeRules fixed = rules_with(shares);
    fixed.collective.settings.set("layout", "fixed");
    CHECK(error(fixed).find("expected \"auto\" or \"unpadded\"") != std::string::npos);
  }
}

}  // namespace dragonn::exchange::testing

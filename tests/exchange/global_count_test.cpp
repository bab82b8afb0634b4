// SPDX-License-Identifier: MIT
/// Tests of `|J|`, the size of the exchanged sum, if values of ranks cancel.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "tests/exchange/combinations.h"

namespace dragonn::exchange::testing {
namespace {

constexpr std::size_t kSize = 100;
constexpr double kDensity = 0.04;  // k = 4

/// Returns `|J|` of one exchange of two ranks, whose values cancel at one of the four indices that both select.
std::uint64_t global_count(const std::string& decode) {
  std::uint64_t count = 0;
  comm::run_local(2, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena;
    arena.declare("weight", {kSize, 1}, ParameterRole::kWeight);
    arena.allocate();
    ExchangeRules rules = rules_of({"topk", "allgather", "residual"});
    rules.collective.settings.set("decode", decode);
    GradientExchange exchange(rules, arena, communicator);
    std::vector<float> gradient(kSize);
    for (const std::size_t index : {7, 20, 31, 64}) gradient[index] = 2;
    if (communicator.rank() == 1) gradient[31] = -2;
    StepTimers timers;
    exchange.run({.step = 0, .density = kDensity}, std::span<const float>(gradient), timers);
    exchange.commit(timers);
    if (communicator.rank() == 0) count = exchange.counts().global;
  });
  return count;
}

}  // namespace

TEST_SUITE_BEGIN("exchange");

TEST_CASE("a list of sums counts an index whose values cancelled, a dense vector of them does not") {
  CHECK(global_count("sparse") == 4);
  CHECK(global_count("dense") == 3);
}

TEST_SUITE_END();

}  // namespace dragonn::exchange::testing

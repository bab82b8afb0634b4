// SPDX-License-Identifier: MIT
/// Tests of the comparison of the bytes that a run sends with those that were assumed.
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "tests/exchange/combinations.h"
#include "trainer/run/run_recorder.h"

namespace dragonn::trainer::testing {
namespace {

using namespace exchange::testing;

constexpr ByteRange kAssumed{.low = 80, .expected = 100, .high = 300};

/// Runs `steps` steps in which rank r sends `bytes(step)` + r - 1 bytes, and returns the steps, from 1, that told
/// something, on all ranks alike.
template <class Bytes>
std::vector<std::pair<std::uint64_t, double>> told(std::uint64_t steps, const Bytes& bytes) {
  constexpr int kRanks = 3;
  const exchange::ExchangeRules rules = rules_of({"topk", "allgather", "residual"});
  std::vector<std::vector<std::pair<std::uint64_t, double>>> by_rank(kRanks);
  comm::run_local(kRanks, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    TrafficCheck check(rules, kAssumed);
    for (std::uint64_t step = 1; step <= steps; ++step) {
      const auto seen = check.add(communicator, {.selected = {0, 0, 0}}, bytes(step) + communicator.rank() - 1);
      if (seen) by_rank[static_cast<std::size_t>(communicator.rank())].emplace_back(step, seen->bytes);
    }
  });
  CHECK(by_rank[0] == by_rank[1]);
  CHECK(by_rank[0] == by_rank[2]);
  return by_rank[0];
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("bytes that were assumed are not news, in the range up to a factor of two") {
    for (const double bytes : {80, 100, 199, 79 + 2}) CHECK(told(40, [&](std::uint64_t) { return bytes; }).empty());
    using Told = std::vector<std::pair<std::uint64_t, double>>;
    CHECK(told(40, [](std::uint64_t) { return 200.0; }) == Told{{20, 200}});  // in the range
    CHECK(told(40, [](std::uint64_t) { return 79.0; }) == Told{{20, 79}});    // outside
    CHECK(told(40, [](std::uint64_t) { return 301.0; }) == Told{{20, 301}});
  }

  TEST_CASE(
      "bytes are compared after 20 steps, 40, 80 and so on, and told again where they change by a factor of two") {
    const auto falling = [](std::uint64_t step) { return step <= 20 ? 1000.0 : step <= 60 ? 600.0 : 400.0; };
    using Told = std::vector<std::pair<std::uint64_t, double>>;
    CHECK(told(19, falling).empty());
    CHECK(told(200, falling) == Told{{20, 1000}, {80, 400}});
    // What comes in the first ten steps does not count.
    CHECK(told(60, [](std::uint64_t step) { return step <= 10 ? 1e6 : 100.0; }).empty());
  }

  TEST_CASE("the counts of the steps are shares of their targets") {
    const auto seen_by = [](const char* sparsifier, const char* collective) {
      const exchange::ExchangeRules rules = rules_of({sparsifier, collective, "residual"});
      std::optional<SeenTraffic> seen;
      comm::run_local(1, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
        TrafficCheck check(rules, kAssumed);
        const exchange::ExchangeCounts counts{
            .numel = 1000, .target = 10, .selected = {20, 40}, .global = 45, .padded = 80};
        for (int step = 0; step < 20; ++step) seen = check.add(communicator, counts, 1000);
      });
      return seen.value().counts;
    };
    const comm::AssumedCounts united = seen_by("hard_threshold", "index_union");
    CHECK(united.longest == doctest::Approx(80.0 / 60));
    CHECK(united.sum == doctest::Approx(45.0 / 60));
    CHECK(seen_by("hard_threshold", "oktopk").sum == doctest::Approx(4.5));
    CHECK(united.selected == doctest::Approx(6));  // 60 of 10 by one rank
  }
}

}  // namespace dragonn::trainer::testing

// SPDX-License-Identifier: MIT
/// Tests of copies of residuals: what a rank has not sent is not lost with it, and nothing counts twice.
#include "trainer/run/residual_copies.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/rng.h"
#include "core/timer.h"
#include "tests/exchange/combinations.h"

namespace dragonn::trainer::testing {
namespace {

using exchange::BucketSum;
using exchange::GradientExchange;

constexpr std::size_t kSize = 500;
constexpr std::array kMembers{3, 5, 8};  // ids by rank; the member 5 is lost
constexpr std::array kLeft{3, 8};
constexpr int kLost = 1;
constexpr int kSteps = 7;

/// Whole numbers, so that sums are exact.
std::vector<float> gradient_of(int rank, int step) {
  std::vector<float> gradient(kSize);
  Rng rng(7, "copies", {static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(step)});
  for (float& value : gradient) value = static_cast<float>(rng.below(200)) - 100;
  return gradient;
}

/// Sums over buckets, [kSize], as doubles.
using Values = std::vector<double>;

Values residual_of(const GradientExchange& exchange) {
  Values values(kSize);
  for (std::size_t bucket = 0; bucket < exchange.buckets().size(); ++bucket) {
    const auto residual = exchange.memory(bucket).residual().host();
    for (std::size_t i = 0; i < residual.size(); ++i) values[exchange.buckets()[bucket].offset + i] = residual[i];
  }
  return values;
}

void add_to(Values& values, std::span<const BucketSum> sums) {
  for (const BucketSum& sum : sums) {
    const auto parts = sum.values().host();
    for (std::size_t i = 0; i < parts.size(); ++i)
      values[sum.offset + (sum.entries != nullptr ? sum.entries->indices.host()[i] : i)] += parts[i];
  }
}

/// The places of all gradients when the middle of three ranks is lost behind step kSteps.
struct Account {
  Values made{Values(kSize)};        ///< by all ranks
  Values applied{Values(kSize)};     ///< by the optimizer
  Values kept{Values(kSize)};        ///< in the residuals of those that are left, the copy included
  Values copied{Values(kSize)};      ///< the lost one's residual at its last copy
  Values sent_since{Values(kSize)};  ///< magnitudes of what was applied behind that
  double restored = 0;
};

Account lose(const exchange::testing::Combination& combination, int every) {
  Account account;
  comm::run_local(3, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    const int rank = communicator.rank();
    ParameterArena arena;
    arena.declare("a", {20, 20}, ParameterRole::kWeight);
    arena.declare("b", {10, 10}, ParameterRole::kWeight);
    arena.allocate();
    GradientExchange exchange(exchange::testing::rules_of(combination), arena, communicator);
    ResidualCopies copies;
    StepTimers timers;
    Account mine;
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<float> gradient = gradient_of(rank, step);
      for (std::size_t i = 0; i < kSize; ++i) mine.made[i] += gradient[i];
      const auto sums = exchange.run({.step = static_cast<std::uint64_t>(step), .density = 0.05},
                                     View<const float>(std::span<const float>(gradient)), timers);
      exchange.commit(timers);
      copies.take_update(sums);
      add_to(mine.applied, sums);
      Values step_sums(kSize);
      add_to(step_sums, sums);
      for (std::size_t i = 0; i < kSize; ++i) mine.sent_since[i] += std::abs(step_sums[i]);
      if ((step + 1) % every != 0) continue;
      Archive own;
      exchange.save(own);
      copies.take(communicator, exchange, own, kMembers);
      copies.commit();
      mine.copied = rank == kLost ? residual_of(exchange) : Values(kSize);
      mine.sent_since = Values(kSize);
    }
    if (rank != kLost) {
      const auto restored = copies.add_lost(exchange, kLeft);
      const bool has_copy = rank == kLost + 1 && every <= kSteps;  // the next rank
      CHECK(restored.size() == (has_copy ? 1 : 0));
      for (const auto& [member, sum] : restored) {
        CHECK(member == kMembers[kLost]);
        mine.restored = sum;
      }
      mine.kept = residual_of(exchange);
      copies.forget_lost(kLeft);
      CHECK(copies.add_lost(exchange, kLeft).empty());
    }
    for (Values* values : {&mine.made, &mine.kept, &mine.copied})
      communicator.allreduce_sum(std::span<double>(*values));
    communicator.allreduce_sum(std::span<double>(&mine.restored, 1));
    if (rank == 0) account = mine;
  });
  return account;
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE("residual copies: with a copy at every exchange nothing is lost but what was not yet a gradient") {
  for (const exchange::testing::Combination& combination :
       {exchange::testing::Combination{"topk", "allgather", "residual"},
        exchange::testing::Combination{"topk", "gtopk", "residual"},
        exchange::testing::Combination{"topk", "oktopk", "residual"}}) {
    CAPTURE(combination.name());
    const Account account = lose(combination, 1);
    double copied = 0;
    for (std::size_t i = 0; i < kSize; ++i) {
      CAPTURE(i);
      CHECK(account.applied[i] + account.kept[i] == account.made[i]);
      copied += account.copied[i];
    }
    CHECK(account.restored == copied);
  }
}

TEST_CASE("residual copies: of an older copy what anybody has sent since does not count again") {
  const Account with = lose({"topk", "allgather", "residual"}, 4),
                without = lose({"topk", "allgather", "residual"}, 100);
  CHECK(without.restored == 0);
  std::size_t sent = 0;
  for (std::size_t i = 0; i < kSize; ++i) {
    CAPTURE(i);
    CHECK(with.applied[i] == without.applied[i]);
    CHECK(with.kept[i] - without.kept[i] == (with.sent_since[i] != 0 ? 0 : with.copied[i]));
    sent += with.sent_since[i] != 0 ? 1 : 0;
  }
  CHECK(sent > 0);
  CHECK(sent < kSize);
}

TEST_SUITE_END();

}  // namespace dragonn::trainer::testing

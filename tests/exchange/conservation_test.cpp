// SPDX-License-Identifier: MIT
/// Invariant 1: sum over ranks of acc = exchanged sum + sum over ranks of the new residuals.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"

namespace dragonn::exchange::testing {
namespace {

constexpr float kMomentum = 0.5f;  // dyadic: products stay exact
constexpr std::uint64_t kSteps = 5;

ParameterArena small_arena() {
  ParameterArena arena;
  arena.declare("a.weight", {23, 7}, ParameterRole::kWeight);
  arena.declare("a.bias", {7}, ParameterRole::kBias);
  arena.declare("b.weight", {7, 5}, ParameterRole::kWeight);
  arena.declare("c.weight", {1, 1}, ParameterRole::kWeight);
  arena.allocate();
  return arena;
}

/// Small integers, many of them zero, some tied: sums and products with a dyadic momentum are exact in float32.
void fill_gradient(std::span<float> gradient, int rank, std::uint64_t step) {
  Rng rng(11, "conservation", {step, static_cast<std::uint64_t>(rank)});
  for (float& value : gradient) value = rng.below(3) == 0 ? 0.0f : static_cast<float>(rng.below(17)) - 8.0f;
}

/// One rank's ledger: the acc before each exchange, computed apart from the code under test.
class Ledger {
 public:
  explicit Ledger(std::size_t numel, bool momentum) : momentum_(momentum), velocity_(numel), residual_(numel) {}

  std::vector<double> accumulate(std::span<const float> gradient) {
    std::vector<double> acc(gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      velocity_[i] = (momentum_ ? kMomentum * velocity_[i] : 0.0) + gradient[i];
      acc[i] = residual_[i] + velocity_[i];
    }
    return acc;
  }
  void settle(std::size_t offset, std::span<const std::uint32_t> masked) {
    if (!momentum_) return;
    for (std::uint32_t index : masked) velocity_[offset + index] = 0;  // momentum masking
  }
  void take_residual(std::size_t offset, std::span<const float> residual) {
    std::ranges::copy(residual, residual_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  void clear_residual(std::size_t offset, std::size_t size) {
    std::fill_n(residual_.begin() + static_cast<std::ptrdiff_t>(offset), size, 0.0);
  }

 private:
  bool momentum_;
  std::vector<double> velocity_;
  std::vector<double> residual_;
};

/// The acc and residual of one rank in one step, and the exchanged sum, as n doubles.
struct Account {
  std::vector<double> acc, residual, sum;
};

void add_sum(const comm::SparseReduction& reduction, std::size_t offset, std::vector<double>& sum) {
  if (reduction.is_dense) {
    const auto values = reduction.dense_sum.host();
    for (std::size_t i = 0; i < values.size(); ++i) sum[offset + i] = values[i];
    return;
  }
  const auto indices = reduction.sum.indices.host();
  for (std::size_t i = 0; i < indices.size(); ++i) sum[offset + indices[i]] = reduction.sum.values.host()[i];
}

Account run_step(GradientExchange& exchange, Ledger& ledger, std::span<const float> gradient, std::uint64_t step,
                 bool owns_momentum) {
  StepTimers timers;
  Account account{ledger.accumulate(gradient), std::vector<double>(gradient.size()),
                  std::vector<double>(gradient.size())};
  exchange.run({.step = step, .density = 0.1, .learning_rate = 0.1}, View<const float>(gradient), timers);
  for (std::size_t b = 0; b < exchange.buckets().size(); ++b) {
    const Bucket& bucket = exchange.buckets()[b];
    const comm::SparseReduction& reduction = exchange.reduction(b);
    add_sum(reduction, bucket.offset, account.sum);
    const auto residual = exchange.memory(b).residual().host();
    if (residual.empty()) {
      ledger.clear_residual(bucket.offset, bucket.size);
    } else {
      ledger.take_residual(bucket.offset, residual);
      std::ranges::copy(residual, account.residual.begin() + static_cast<std::ptrdiff_t>(bucket.offset));
      // A quantizer contributes something of every entry, and none as a whole: nothing is masked.
      if (!reduction.contributed_all && owns_momentum) ledger.settle(bucket.offset, reduction.masked().host());
    }
  }
  return account;
}

/// The accounts by step and rank.
using Accounts = std::vector<std::vector<Account>>;

Accounts run_steps(const Combination& combination, int world_size, BucketRules::Grouping grouping) {
  const auto& memory = Registry<compress::MemoryEntry>::instance().at(combination.memory);
  Accounts accounts(kSteps, std::vector<Account>(static_cast<std::size_t>(world_size)));
  comm::run_local(world_size, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena = small_arena();
    ExchangeRules rules = rules_of(combination);
    rules.momentum = kMomentum;
    rules.buckets.grouping = grouping;
    rules.buckets.include_vectors = true;
    GradientExchange exchange(rules, arena, communicator);
    Ledger ledger(arena.size(), memory.owns_momentum);
    std::vector<float> gradient(arena.size());
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      fill_gradient(gradient, communicator.rank(), step);
      accounts[step][static_cast<std::size_t>(communicator.rank())] =
          run_step(exchange, ledger, gradient, step, memory.owns_momentum);
    }
  });
  return accounts;
}

/// Returns sum of acc - exchanged sum - sum of residuals of one coordinate in one step.
double deviation_at(const std::vector<Account>& ranks, std::size_t i) {
  double deviation = -ranks[0].sum[i];
  for (const Account& account : ranks) deviation += account.acc[i] - account.residual[i];
  return std::abs(deviation);
}

/// Largest deviation from the invariant over all coordinates and steps.
double largest_loss(const Combination& combination, int world_size, BucketRules::Grouping grouping) {
  double largest = 0;
  for (const auto& ranks : run_steps(combination, world_size, grouping)) {
    for (std::size_t i = 0; i < ranks[0].sum.size(); ++i) largest = std::max(largest, deviation_at(ranks, i));
  }
  return largest;
}

/// Returns the largest deviation over what rounding allows: each rank rounds acc - decoded once, and the sum of decoded
/// values
/// P - 1 times. Values are as large as acc and the decoded value, which is acc - residual.
double largest_loss_in_roundings(const Combination& combination, int world_size, BucketRules::Grouping grouping) {
  double largest = 0;
  for (const auto& ranks : run_steps(combination, world_size, grouping)) {
    for (std::size_t i = 0; i < ranks[0].sum.size(); ++i) {
      double size = 0;
      for (const Account& account : ranks) size += std::abs(account.acc[i]) + std::abs(account.residual[i]);
      const double allowed = (world_size + 4) * std::numeric_limits<float>::epsilon() * size;
      if (size > 0) largest = std::max(largest, deviation_at(ranks, i) / allowed);
    }
  }
  return largest;
}

/// Returns whether a combination is exempt by definition: memory none discards what was not sent.
bool is_exempt(const Combination& combination) {
  return !Registry<compress::MemoryEntry>::instance().at(combination.memory).conserves;
}

}  // namespace

TEST_SUITE_BEGIN("exchange");

TEST_CASE("no gradient mass is lost, exactly, for every combination and world size") {
  std::size_t checked = 0;
  for (const Combination& combination : sparse_combinations()) {
    if (is_exempt(combination)) continue;
    for (int world_size : kManyWorlds) {
      for (auto grouping : {BucketRules::Grouping::kTensor, BucketRules::Grouping::kModel}) {
        CAPTURE(combination.name());
        CAPTURE(world_size);
        CHECK(largest_loss(combination, world_size, grouping) == 0.0);
        ++checked;
      }
    }
  }
  CHECK(checked >= 8 * 2 * kManyWorlds.size());
}

TEST_CASE("no gradient mass is lost to a quantizer with a memory, to rounding") {
  std::size_t checked = 0;
  for (const Combination& combination : quantized_combinations()) {
    if (is_exempt(combination)) continue;
    for (int world_size : kWorlds) {
      for (auto grouping : {BucketRules::Grouping::kTensor, BucketRules::Grouping::kModel}) {
        CAPTURE(combination.name());
        CAPTURE(world_size);
        CHECK(largest_loss_in_roundings(combination, world_size, grouping) <= 1.0);
        ++checked;
      }
    }
  }
  CHECK(checked >= 2 * 2 * kWorlds.size());
}

TEST_CASE("no gradient mass is lost to codes of lists, to rounding") {
  // Every two parts together; DRAGONN_FULL_PRODUCT=1 runs all combinations.
  const bool is_full = std::getenv("DRAGONN_FULL_PRODUCT") != nullptr;
  std::size_t checked = 0;
  for (const Combination& combination : is_full ? coded_combinations() : pairwise_coded_combinations()) {
    if (is_exempt(combination)) continue;
    for (int world_size : {1, 2, 3, 5, 8}) {
      CAPTURE(combination.name());
      CAPTURE(world_size);
      const auto grouping = world_size % 2 == 0 ? BucketRules::Grouping::kTensor : BucketRules::Grouping::kModel;
      CHECK(largest_loss_in_roundings(combination, world_size, grouping) <= 1.0);
      ++checked;
    }
  }
  CHECK(checked >= 100);
}

TEST_CASE("memory none loses what was not sent: the invariant can fail") {
  CHECK(largest_loss_in_roundings({"none", "allgather", "none", "signsgd"}, 2, BucketRules::Grouping::kTensor) > 1e3);
  CHECK(largest_loss({"topk", "allgather", "none"}, 2, BucketRules::Grouping::kTensor) > 0.0);
}

TEST_SUITE_END();

}  // namespace dragonn::exchange::testing

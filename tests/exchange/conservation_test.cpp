// SPDX-License-Identifier: MIT
/// Invariant 1: sum over ranks of acc = exchanged sum + sum over ranks of the new residuals, also where exchanges are
/// abandoned; and what the optimizer takes is the exchanged sum, or the sum over ranks of their estimates.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/error.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"
#include "tests/exchange/sums.h"

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

/// A dyadic share, of `low_pass` and `econtrol`.
constexpr double kShare = 0.5;

/// One rank's ledger: the acc before each exchange by the equations of docs/algorithms.md, section 1, computed apart
/// from the code under test.
class Ledger {
 public:
  Ledger(std::string memory, std::size_t numel)
      : memory_(std::move(memory)), state_(numel), residual_(numel), estimate_(numel) {}

  std::vector<double> accumulate(std::span<const float> gradient) {
    std::vector<double> acc(gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) acc[i] = accumulate(i, gradient[i]);
    return acc;
  }
  /// Returns what an exchange that is given up leaves of acc.
  std::vector<double> abandon(std::vector<double> acc) const {
    if (memory_ == "econtrol") std::ranges::transform(acc, estimate_, acc.begin(), std::plus<>());
    return acc;
  }
  bool masks() const { return memory_ == "momentum_correction"; }
  void mask(std::size_t offset, std::span<const std::uint32_t> masked) {
    for (std::uint32_t index : masked) state_[offset + index] = 0;  // momentum masking
  }
  /// Takes a bucket's residual, and returns this rank's part in what the optimizer takes of `sent`, which left it.
  std::span<const double> settle(std::size_t offset, std::span<const float> residual, std::span<double> sent) {
    std::ranges::copy(residual, residual_.begin() + static_cast<std::ptrdiff_t>(offset));
    if (!estimates()) return sent;
    const auto estimate = std::span(estimate_).subspan(offset, sent.size());
    std::ranges::transform(estimate, sent, estimate.begin(), std::plus<>());
    return estimate;
  }
  void clear_residual(std::size_t offset, std::size_t size) {
    std::fill_n(residual_.begin() + static_cast<std::ptrdiff_t>(offset), size, 0.0);
  }
  /// Returns whether the ledger's own state decides acc, so that roundings of all steps add up.
  bool keeps_roundings() const { return estimates() || memory_ == "low_pass"; }

 private:
  bool estimates() const { return Registry<compress::MemoryEntry>::instance().at(memory_).estimates; }

  double accumulate(std::size_t i, double gradient) {
    double& state = state_[i];
    if (memory_ == "none") return gradient;
    if (memory_ == "residual") return residual_[i] + gradient;
    if (memory_ == "ef21") return gradient - estimate_[i];
    if (memory_ == "momentum_correction" || memory_ == "ef21_sgdm") {
      state = kMomentum * state + gradient;
      return memory_ == "ef21_sgdm" ? state - estimate_[i] : residual_[i] + state;
    }
    if (memory_ == "low_pass") {
      state = (1 - kShare) * state + kShare * residual_[i];
      return state + gradient;
    }
    if (memory_ != "econtrol") throw Error("no equation of memory " + memory_);
    state = (1 - kShare) * state + residual_[i];
    return kShare * state + gradient - estimate_[i];
  }

  std::string memory_;
  std::vector<double> state_, residual_, estimate_;
};

/// One rank's step, as n doubles: acc and residual; the exchanged sum; what the optimizer takes, and this rank's part
/// in it; the size of the numbers that were rounded.
struct Account {
  std::vector<double> acc, residual, sum, taken, part, size;
};

/// The end of an exchange.
enum class End { kCommit, kAbandon, kFail };
using Ends = std::array<End, kSteps>;
constexpr Ends kCommitAll{};

/// Fails before the last group, on every rank.
class FailingGate final : public GroupGate {
 public:
  explicit FailingGate(const GradientExchange& exchange) : last_(exchange.groups().size() - 1) {}
  void open(std::size_t group) override {
    if (group == last_) throw SystemError("the gate fails");
  }
  void close(std::size_t /*group*/) override {}

 private:
  std::size_t last_;
};

/// Returns what the optimizer takes, nothing if the exchange does not count.
std::span<const BucketSum> exchange_gradient(GradientExchange& exchange, const ExchangeStep& step,
                                             View<const float> gradient, End end) {
  StepTimers timers;
  FailingGate gate(exchange);
  std::span<const BucketSum> sums;
  try {
    sums = exchange.run(step, gradient, timers, end == End::kFail ? &gate : nullptr);
  } catch (const SystemError&) {
  }
  if (end == End::kCommit) {
    exchange.commit(timers);
    return sums;
  }
  exchange.abandon();
  return {};
}

Account run_step(GradientExchange& exchange, Ledger& ledger, std::span<const float> gradient, std::uint64_t step,
                 End end) {
  const std::vector<double> zeros(gradient.size());
  Account account{ledger.accumulate(gradient), zeros, zeros, zeros, zeros, zeros};
  for (const BucketSum& sum :
       exchange_gradient(exchange, {.step = step, .density = 0.1, .learning_rate = 0.1}, gradient, end)) {
    for_each_value(sum, [&](std::size_t place, float value) { account.taken[place] = value; });
  }
  if (end != End::kCommit) account.acc = ledger.abandon(std::move(account.acc));
  for (std::size_t b = 0; b < exchange.buckets().size(); ++b) {
    const Bucket& bucket = exchange.buckets()[b];
    const comm::SparseReduction& reduction = exchange.reduction(b);
    if (end == End::kCommit) write_sum(reduction, bucket.offset, account.sum);
    const auto residual = exchange.memory(b).residual().host();
    if (residual.empty()) {
      ledger.clear_residual(bucket.offset, bucket.size);
      continue;
    }
    std::vector<double> sent(bucket.size);
    for (std::size_t i = 0; i < bucket.size; ++i) {
      account.residual[bucket.offset + i] = residual[i];
      sent[i] = account.acc[bucket.offset + i] - residual[i];
    }
    const auto part = ledger.settle(bucket.offset, residual, sent);
    if (end == End::kCommit) std::ranges::copy(part, account.part.begin() + static_cast<std::ptrdiff_t>(bucket.offset));
    // A quantizer contributes something of every entry, and none as a whole: nothing is masked.
    if (end == End::kCommit && !reduction.contributed_all && ledger.masks())
      ledger.mask(bucket.offset, reduction.masked().host());
  }
  for (std::size_t i = 0; i < gradient.size(); ++i)
    account.size[i] = std::abs(account.acc[i]) + std::abs(account.residual[i]) +
                      (ledger.keeps_roundings() ? std::abs(account.part[i]) : 0.0);
  return account;
}

/// The accounts by step and rank.
using Accounts = std::vector<std::vector<Account>>;

Accounts run_steps(const Combination& combination, int world_size, BucketRules::Grouping grouping, const Ends& ends) {
  Accounts accounts(kSteps, std::vector<Account>(static_cast<std::size_t>(world_size)));
  comm::run_local(world_size, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena = small_arena();
    ExchangeRules rules = rules_of(combination);
    rules.momentum = kMomentum;
    for (const char* share : {"beta", "eta"}) {
      if (rules.memory.settings.contains(share)) rules.memory.settings.set(share, kShare);
    }
    rules.buckets.grouping = grouping;
    rules.buckets.include_vectors = true;
    GradientExchange exchange(rules, arena, communicator);
    Ledger ledger(combination.memory, arena.size());
    std::vector<float> gradient(arena.size());
    std::vector<double> sizes(arena.size());
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      fill_gradient(gradient, communicator.rank(), step);
      Account& account = accounts[step][static_cast<std::size_t>(communicator.rank())];
      account = run_step(exchange, ledger, gradient, step, ends[step]);
      std::ranges::transform(sizes, account.size, sizes.begin(), std::plus<>());
      if (ledger.keeps_roundings()) account.size = sizes;
    }
  });
  return accounts;
}

/// Returns |sum of acc - exchanged sum - sum of residuals| of one coordinate in one step, or by how much what the
/// optimizer takes is not the sum of the ranks' parts, if that is more.
double deviation_at(const std::vector<Account>& ranks, std::size_t i) {
  double deviation = -ranks[0].sum[i], taken = -ranks[0].taken[i];
  for (const Account& account : ranks) {
    deviation += account.acc[i] - account.residual[i];
    taken += account.part[i];
  }
  return std::max(std::abs(deviation), std::abs(taken));
}

void require_equal_sums(const std::vector<Account>& ranks) {
  for (const Account& account : ranks) {
    REQUIRE(account.sum == ranks[0].sum);
    REQUIRE(account.taken == ranks[0].taken);
  }
}

/// Largest deviation from the invariant over all coordinates and steps.
double largest_loss(const Combination& combination, int world_size, BucketRules::Grouping grouping,
                    const Ends& ends = kCommitAll) {
  double largest = 0;
  for (const auto& ranks : run_steps(combination, world_size, grouping, ends)) {
    require_equal_sums(ranks);
    for (std::size_t i = 0; i < ranks[0].sum.size(); ++i) largest = std::max(largest, deviation_at(ranks, i));
  }
  return largest;
}

/// Returns the largest deviation over what rounding allows: each rank rounds acc - decoded once, and the sum of decoded
/// values P - 1 times. Values are as large as acc and the decoded value, which is acc - residual.
double largest_loss_in_roundings(const Combination& combination, int world_size, BucketRules::Grouping grouping,
                                 const Ends& ends = kCommitAll) {
  double largest = 0;
  for (const auto& ranks : run_steps(combination, world_size, grouping, ends)) {
    require_equal_sums(ranks);
    for (std::size_t i = 0; i < ranks[0].sum.size(); ++i) {
      double size = 0;
      for (const Account& account : ranks) size += account.size[i];
      const double allowed = (world_size + 4) * std::numeric_limits<float>::epsilon() * size;
      if (size > 0) largest = std::max(largest, deviation_at(ranks, i) / allowed);
    }
  }
  return largest;
}

/// An exchange is abandoned, one fails, and two are given up in a row; the others count.
constexpr Ends kSomeAbandoned{End::kAbandon, End::kCommit, End::kFail, End::kAbandon, End::kCommit};

/// Returns whether the codes of values are exact: then integers stay integers.
bool is_exact(const Combination& combination) {
  return combination.quantizer == "none" && !Registry<codec::ValueCodecEntry>::instance().at(combination.values).lossy;
}

/// Returns these numbers of workers, or a few with the memories that differ by what they do between exchanges.
std::vector<int> worlds_of(const Combination& combination, const std::vector<int>& worlds) {
  const bool is_plain = combination.memory == "residual" || combination.memory == "momentum_correction";
  return is_plain ? worlds : kFewWorlds;
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
    for (int world_size : worlds_of(combination, kManyWorlds)) {
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
    for (int world_size : worlds_of(combination, {1, 2, 3, 5, 8})) {
      CAPTURE(combination.name());
      CAPTURE(world_size);
      const auto grouping = world_size % 2 == 0 ? BucketRules::Grouping::kTensor : BucketRules::Grouping::kModel;
      CHECK(largest_loss_in_roundings(combination, world_size, grouping) <= 1.0);
      ++checked;
    }
  }
  CHECK(checked >= 100);
}

TEST_CASE("abandoned and failed exchanges lose nothing, with every memory, collective and codec") {
  std::vector<Combination> all = combinations();
  std::ranges::move(pairwise_coded_combinations(), std::back_inserter(all));
  std::size_t exact = 0, rounded = 0;
  for (const Combination& combination : all) {
    if (is_exempt(combination)) continue;
    for (int world_size : {2, 3, 5}) {
      CAPTURE(combination.name());
      CAPTURE(world_size);
      const auto grouping = world_size == 3 ? BucketRules::Grouping::kModel : BucketRules::Grouping::kTensor;
      if (is_exact(combination)) {
        CHECK(largest_loss(combination, world_size, grouping, kSomeAbandoned) == 0.0);
        ++exact;
      } else {
        CHECK(largest_loss_in_roundings(combination, world_size, grouping, kSomeAbandoned) <= 1.0);
        ++rounded;
      }
    }
  }
  CHECK(exact >= (kAllCombinations ? 100 : 40));
  CHECK(rounded >= 50);
}

TEST_CASE("econtrol: what the optimizer has taken and the errors are all gradients together, exactly") {
  constexpr int kWorld = 3;
  std::size_t checked = 0;
  for (const Combination& combination : sparse_combinations()) {
    if (combination.memory != "econtrol") continue;
    CAPTURE(combination.name());
    std::vector<double> owed, errors;
    for (int rank = 0; rank < kWorld; ++rank) {
      std::vector<float> gradient(small_arena().size());
      owed.resize(gradient.size());
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        fill_gradient(gradient, rank, step);
        std::ranges::transform(owed, gradient, owed.begin(), std::plus<>());
      }
    }
    const Accounts accounts = run_steps(combination, kWorld, BucketRules::Grouping::kTensor, kSomeAbandoned);
    for (const auto& ranks : accounts) std::ranges::transform(owed, ranks[0].taken, owed.begin(), std::minus<>());
    // e = (1 - eta) e + residual, from every step's residual.
    errors.resize(owed.size());
    for (int rank = 0; rank < kWorld; ++rank) {
      std::vector<double> error(owed.size());
      for (const auto& ranks : accounts) {
        const std::vector<double>& residual = ranks[static_cast<std::size_t>(rank)].residual;
        std::ranges::transform(error, residual, error.begin(),
                               [](double before, double left) { return (1 - kShare) * before + left; });
      }
      std::ranges::transform(errors, error, errors.begin(), std::plus<>());
    }
    CHECK(errors == owed);
    ++checked;
  }
  CHECK(checked >= 8);
}

TEST_CASE("with memory none an abandoned exchange is a step that never was") {
  const Combination combination{"topk", "allgather", "none"};
  const auto grouping = BucketRules::Grouping::kTensor;
  const Accounts all = run_steps(combination, 3, grouping, kCommitAll);
  const Accounts some = run_steps(combination, 3, grouping, kSomeAbandoned);
  for (std::size_t step = 0; step < kSteps; ++step) {
    if (kSomeAbandoned[step] == End::kCommit) CHECK(some[step][0].sum == all[step][0].sum);
  }
}

TEST_CASE(
    "an exchange of one group leaves the others as they are, and groups one by one give the bits of all at once") {
  comm::run_local(3, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena = small_arena();
    ExchangeRules rules = rules_of({"cltk", "cltk", "residual"});
    rules.buckets.include_vectors = true;
    GradientExchange together(rules, arena, communicator), apart(rules, arena, communicator);
    std::vector<float> gradient(arena.size());
    StepTimers timers;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      fill_gradient(gradient, communicator.rank(), step);
      const View<const float> view{std::span<const float>(gradient)};
      together.run({.step = step, .density = 0.1}, view, timers);
      together.commit(timers);
      for (std::size_t group = 0; group < apart.groups().size(); ++group) {
        const std::array one{group};
        const auto sums = apart.run({.step = step, .density = 0.1, .groups = one}, view, timers);
        const BucketGroup& buckets = apart.groups()[group];
        if (sums.size() != buckets.end - buckets.begin) throw Error("sums of other groups");
        if (sums.front().offset != apart.buckets()[buckets.begin].offset) throw Error("another group");
        apart.commit(timers);
      }
      for (std::size_t bucket = 0; bucket < apart.buckets().size(); ++bucket) {
        std::vector<double> expected(arena.size()), found(arena.size());
        write_sum(together.reduction(bucket), apart.buckets()[bucket].offset, expected);
        write_sum(apart.reduction(bucket), apart.buckets()[bucket].offset, found);
        const bool same = expected == found && std::ranges::equal(together.memory(bucket).residual().host(),
                                                                  apart.memory(bucket).residual().host());
        if (!same) throw Error("another sum or residual");
      }
    }
  });
}

TEST_CASE("memory none loses what was not sent: the invariant can fail") {
  CHECK(largest_loss_in_roundings({"none", "allgather", "none", "signsgd"}, 2, BucketRules::Grouping::kTensor) > 1e3);
  CHECK(largest_loss({"topk", "allgather", "none"}, 2, BucketRules::Grouping::kTensor) > 0.0);
}

TEST_SUITE_END();

}  // namespace dragonn::exchange::testing

// SPDX-License-Identifier: MIT
/// Tests of memories that keep acc in a basis of their own.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"
#include "tests/exchange/sums.h"

namespace dragonn::exchange::testing {
namespace {

constexpr std::uint64_t kSteps = 4;

/// A residual of the bucket read backwards: the simplest transform that is orthonormal, and exact.
class Reversed final : public compress::Memory {
 public:
  explicit Reversed(std::size_t numel, const Device& device)
      : residual_(memory_entry(rules_of({"topk", "allgather", "residual"}))
                      .make(with_defaults<compress::MemoryEntry>("residual").settings, numel, 0, false, device)),
        transformed_(numel),
        restored_(numel) {}

  kernels::PassResult& compensate(const kernels::PassRequest& request, View<const float> gradient,
                                  float scale) override {
    std::ranges::reverse_copy(gradient.host(), transformed_.begin());
    return residual_->compensate(request, View<const float>(std::span<const float>(transformed_)), scale);
  }
  View<const float> accumulated() const override { return residual_->accumulated(); }
  void settle(const compress::Settlement& settlement) override { residual_->settle(settlement); }
  View<const float> to_gradient(View<const float> dense, const SparseVector* entries) override {
    if (entries == nullptr) {
      std::ranges::reverse_copy(dense.host(), restored_.begin());
    } else {
      std::ranges::fill(restored_, 0.0f);
      const auto indices = entries->indices.host();
      const auto values = entries->values.host();
      for (std::size_t i = 0; i < indices.size(); ++i) restored_[restored_.size() - 1 - indices[i]] = values[i];
    }
    return std::span<const float>(restored_);
  }
  double residual_norm() const override { return residual_->residual_norm(); }
  View<const float> residual() const override { return residual_->residual(); }
  void save(Archive& archive, const std::string& prefix) const override { residual_->save(archive, prefix); }
  void load(const Archive& archive, const std::string& prefix) override { residual_->load(archive, prefix); }
  void add(const Archive& archive, const std::string& prefix) override { residual_->add(archive, prefix); }

 private:
  std::unique_ptr<compress::Memory> residual_;
  std::vector<float> transformed_, restored_;
};

/// Registers the memory "reversed". Not before the test begins: other tests run over all memories.
void register_reversed() {
  static const Registration<compress::MemoryEntry> registration{[] {
    compress::MemoryEntry entry;
    entry.name = "reversed";
    entry.summary = "keeps the residual backwards";
    entry.source = "this test";
    entry.floats_per_element = 1;
    entry.conserves = false;
    entry.make = [](const Settings&, std::size_t numel, float, bool, const Device& device) {
      return std::make_unique<Reversed>(numel, device);
    };
    return entry;
  }()};
}

/// Returns rank 0's sums of all steps, each as n floats.
std::vector<std::vector<float>> sums_with(const char* memory) {
  std::vector<std::vector<float>> result;
  comm::run_local(3, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena;
    arena.declare("first", {20, 15}, ParameterRole::kWeight);
    arena.declare("second", {12, 25}, ParameterRole::kWeight);
    arena.allocate();
    GradientExchange exchange(rules_of({"topk", "allgather", memory}), arena, communicator);
    std::vector<float> gradient(arena.size());
    StepTimers timers;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Rng rng(7, "transform test", {step, static_cast<std::uint64_t>(communicator.rank())});
      // Exact sums: the order of additions in a ring depends on the place.
      for (float& value : gradient) value = std::round(rng.normal() * 0x1p18f) * 0x1p-18f;
      // The last step is dense.
      const auto sums = exchange.run({.step = step, .density = step + 1 == kSteps ? 1.0 : 0.05},
                                     View<const float>(std::span<const float>(gradient)), timers);
      exchange.commit(timers);
      if (communicator.rank() != 0) continue;
      std::vector<float>& all = result.emplace_back(arena.size());
      for (const BucketSum& sum : sums)
        for_each_value(sum, [&](std::size_t place, float value) { all[place] = value; });
    }
  });
  return result;
}

/// One rank's acc and residual of a step, both transformed, and what was exchanged.
struct DctAccount {
  std::vector<double> acc, residual, sum;
};

/// Returns the accounts of all ranks after the last of some steps whose memories work on DCTs.
std::vector<DctAccount> dct_accounts(const Combination& combination, int world_size) {
  std::vector<DctAccount> accounts(static_cast<std::size_t>(world_size));
  comm::run_local(world_size, {.timeout_s = 60}, [&](comm::Communicator& communicator) {
    ParameterArena arena;
    arena.declare("first", {20, 15}, ParameterRole::kWeight);
    arena.declare("bias", {21}, ParameterRole::kBias);
    arena.allocate();
    ExchangeRules rules = rules_of(combination);
    rules.dct = true;
    rules.momentum = 0.5f;
    rules.buckets.include_vectors = true;
    GradientExchange exchange(rules, arena, communicator);
    DctAccount& account = accounts[static_cast<std::size_t>(communicator.rank())];
    StepTimers timers;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      Rng rng(7, "DCT account", {step, static_cast<std::uint64_t>(communicator.rank())});
      for (float& value : arena.gradients().host()) value = rng.normal();
      std::vector<float> acc(exchange.dump_size());
      exchange.run({.step = step, .density = 0.1, .learning_rate = 0.1, .accumulated = std::span(acc)},
                   arena.gradients(), timers);
      exchange.commit(timers);
      account = {{acc.begin(), acc.end()}, std::vector<double>(acc.size()), std::vector<double>(acc.size())};
      for (std::size_t b = 0; b < exchange.buckets().size(); ++b) {
        const std::size_t offset = exchange.buckets()[b].offset;
        const auto residual = exchange.memory(b).residual().host();
        std::ranges::copy(residual, account.residual.begin() + static_cast<std::ptrdiff_t>(offset));
        write_sum(exchange.reduction(b), offset, account.sum);
      }
    }
  });
  return accounts;
}

/// Returns the largest deviation from conservation over what rounding allows.
double largest_loss_in_roundings(const std::vector<DctAccount>& ranks) {
  double largest = 0;
  for (std::size_t i = 0; i < ranks[0].sum.size(); ++i) {
    double deviation = -ranks[0].sum[i], size = 0;
    for (const DctAccount& account : ranks) {
      deviation += account.acc[i] - account.residual[i];
      size += std::abs(account.acc[i]) + std::abs(account.residual[i]);
    }
    const double allowed = static_cast<double>(ranks.size() + 4) * std::numeric_limits<float>::epsilon() * size;
    if (size > 0) largest = std::max(largest, std::abs(deviation) / allowed);
  }
  return largest;
}

}  // namespace

TEST_SUITE("exchange") {
  TEST_CASE("no gradient mass is lost in the basis of the DCT, with every method, collective, memory and codec") {
    std::vector<Combination> all = pairwise_combinations();
    for (const Combination& combination : pairwise_coded_combinations()) all.push_back(combination);
    const std::array worlds{1, 2, 3, 5};
    std::size_t checked = 0;
    for (const Combination& combination : all) {
      if (!Registry<compress::MemoryEntry>::instance().at(combination.memory).conserves) continue;
      const int world_size = worlds[checked++ % worlds.size()];
      CAPTURE(combination.name());
      CAPTURE(world_size);
      const std::vector<DctAccount> accounts = dct_accounts(combination, world_size);
      for (const DctAccount& account : accounts) CHECK(account.sum == accounts[0].sum);
      CHECK(largest_loss_in_roundings(accounts) <= 1);
    }
    CHECK(checked >= 40);
  }

  TEST_CASE("a transform of what is not compressed is refused") {
    ExchangeRules rules = rules_of({"topk", "allgather", "residual"});
    rules.dct = true;
    CHECK_NOTHROW(check_rules(rules));
    rules.buckets.compress = false;
    CHECK_THROWS_WITH_AS(
        check_rules(rules),
        "compression.transform = \"dct\" has no effect with method = \"dense\", which sends gradients as "
        "they are; valid: none, or a sparsifier or quantizer",
        ConfigError);
  }

  TEST_CASE("a memory may keep acc in another basis: the sums come back in the gradient's") {
    register_reversed();
    CHECK(sums_with("reversed") == sums_with("residual"));
  }
}

}  // namespace dragonn::exchange::testing

// SPDX-License-Identifier: MIT
/// Tests of memories that keep acc in a basis of their own.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/rng.h"
#include "tests/exchange/combinations.h"

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
      for (const BucketSum& sum : sums) {
        const auto values = sum.values().host();
        for (std::size_t i = 0; i < values.size(); ++i) {
          all[sum.offset + (sum.entries != nullptr ? sum.entries->indices.host()[i] : i)] = values[i];
        }
      }
    }
  });
  return result;
}

}  // namespace

TEST_SUITE("exchange") {
  TEST_CASE("a memory may keep acc in another basis: the sums come back in the gradient's") {
    register_reversed();
    CHECK(sums_with("reversed") == sums_with("residual"));
  }
}

}  // namespace dragonn::exchange::testing

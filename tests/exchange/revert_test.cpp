// SPDX-License-Identifier: MIT
/// Exchanges that are taken back leave no trace, and gradients may lie anywhere.
#include <algorithm>
#include <limits>
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

constexpr int kRanks = 3;

ParameterArena small_arena() {
  ParameterArena arena;
  arena.declare("a.weight", {41, 9}, ParameterRole::kWeight);
  arena.declare("a.bias", {9}, ParameterRole::kBias);
  arena.declare("b.weight", {9, 5}, ParameterRole::kWeight);
  arena.allocate();
  return arena;
}

std::vector<float> gradient_of(int rank, std::uint64_t step, std::size_t size) {
  std::vector<float> gradient(size);
  Rng rng(3, "revert", {step, static_cast<std::uint64_t>(rank)});
  for (float& value : gradient) value = static_cast<float>(rng.below(2001)) / 1000.0f - 1.0f;
  return gradient;
}

ExchangeStep step_of(std::uint64_t step) {
  return {.step = step, .density = 0.1, .learning_rate = 0.1};
}

/// Returns the sums of all buckets in a row, by their places.
std::vector<float> all_of(std::span<const BucketSum> sums, std::size_t size) {
  std::vector<float> all(size);
  for (const BucketSum& sum : sums) for_each_value(sum, [&](std::size_t place, float value) { all[place] = value; });
  return all;
}

/// Gradients of which every second bucket lies elsewhere, and NaN where it would be otherwise.
class Scattered {
 public:
  Scattered(std::vector<float> gradient, const std::vector<Bucket>& buckets) : whole_(std::move(gradient)) {
    pieces_.resize(buckets.size());
    for (std::size_t index = 0; index < buckets.size(); index += 2) {
      const auto from = std::span(whole_).subspan(buckets[index].offset, buckets[index].size);
      pieces_[index].assign(from.begin(), from.end());
      std::ranges::fill(from, std::numeric_limits<float>::quiet_NaN());
    }
    for (const std::vector<float>& piece : pieces_) places_.push_back(View<const float>(std::span(piece)));
  }
  View<const float> whole() const { return std::span<const float>(whole_); }
  std::span<const View<const float>> places() const { return places_; }

 private:
  std::vector<float> whole_;
  std::vector<std::vector<float>> pieces_;
  std::vector<View<const float>> places_;
};

/// Two exchanges get the same gradients; one of them is given others in between, which it takes back. Throws where they
/// differ.
void compare(const Combination& combination, comm::Communicator& communicator) {
  ParameterArena arena = small_arena();
  ExchangeRules rules = rules_of(combination);
  rules.momentum = 0.9f;
  rules.buckets.include_vectors = true;
  GradientExchange plain(rules, arena, communicator), reverting(rules, arena, communicator);
  StepTimers timers;
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (const bool is_finite : {true, false}) {
      std::vector<float> other = gradient_of(communicator.rank(), 100 + step, arena.size());
      if (!is_finite && communicator.rank() == 1) other[7] = std::numeric_limits<float>::infinity();
      ExchangeStep refused = step_of(step);
      refused.revertible = true;
      reverting.run(refused, View<const float>(std::span<const float>(other)), timers);
      reverting.revert();
    }
    Archive expected, found;
    plain.save(expected);
    reverting.save(found);
    if (expected.fields() != found.fields()) throw Error("revert leaves another state");

    const std::vector<float> gradient = gradient_of(communicator.rank(), step, arena.size());
    const auto sums = plain.run(step_of(step), View<const float>(std::span(gradient)), timers);
    plain.commit(timers);
    const Scattered scattered(gradient, reverting.buckets());
    ExchangeStep apart = step_of(step);
    apart.revertible = true;
    apart.gradients = scattered.places();
    const auto same_sums = reverting.run(apart, scattered.whole(), timers);
    reverting.commit(timers);
    if (all_of(sums, arena.size()) != all_of(same_sums, arena.size())) throw Error("other sums");
  }
}

}  // namespace

TEST_SUITE_BEGIN("exchange");

TEST_CASE("an exchange that is taken back leaves no trace, and gradients that lie apart have the same sums") {
  std::size_t checked = 0;
  for (const Combination& combination : combinations()) {
    CAPTURE(combination.name());
    CHECK_NOTHROW(comm::run_local(kRanks, {.timeout_s = 60},
                                  [&](comm::Communicator& communicator) { compare(combination, communicator); }));
    ++checked;
  }
  CHECK(checked >= 40);
}

TEST_SUITE_END();

}  // namespace dragonn::exchange::testing

// SPDX-License-Identifier: MIT
/// Gradients on a device are exchanged as those of the host are.
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local.h"
#include "core/rng.h"
#include "tests/support/devices.h"
#include "tests/trainer/combinations.h"

namespace dragonn::trainer::testing {
namespace {

using dragonn::test::to_host;

constexpr int kWorkers = 3;
constexpr std::uint64_t kSteps = 3;

/// The sum and the residual of every bucket after every step, one behind the other.
struct Trace {
  std::vector<float> values;
  std::vector<std::uint32_t> indices;
  std::vector<std::uint64_t> selected;

  template <class T>
  static void append(std::vector<T>& target, const std::vector<T>& source) {
    target.insert(target.end(), source.begin(), source.end());
  }
  void add(const GradientExchange& exchange) {
    for (std::size_t bucket = 0; bucket < exchange.buckets().size(); ++bucket) {
      const comm::SparseReduction& reduction = exchange.reduction(bucket);
      append(values, to_host(reduction.is_dense ? reduction.dense_sum.view() : reduction.sum.values.view()));
      if (!reduction.is_dense) append(indices, to_host(reduction.sum.indices.view()));
      append(values, to_host(exchange.memory(bucket).residual()));
    }
    append(selected, exchange.counts().selected);
  }
};

/// Small integers, many of them zero: their sums are exact, so that no order of additions shows.
std::vector<float> gradient_of(std::size_t numel, int rank, std::uint64_t step) {
  Rng rng(13, "device exchange", {step, static_cast<std::uint64_t>(rank)});
  std::vector<float> gradient(numel);
  for (float& value : gradient) value = rng.below(3) == 0 ? 0.0f : static_cast<float>(rng.below(33)) - 16.0f;
  return gradient;
}

/// Of every rank.
std::vector<Trace> run(const Combination& combination, const Device& device) {
  std::vector<Trace> traces(kWorkers);
  comm::run_local(kWorkers, {}, [&](comm::Communicator& communicator) {
    ParameterArena arena(device);
    arena.declare("a.weight", {23, 17}, ParameterRole::kWeight);
    arena.declare("a.bias", {17}, ParameterRole::kBias);
    arena.allocate();
    ExchangeRules rules = rules_of(combination);
    rules.momentum = 0.5f;
    GradientExchange exchange(rules, arena, communicator);
    StepTimers timers;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const std::vector<float> gradient = gradient_of(arena.size(), communicator.rank(), step);
      kernels::transfer(View<const float>(gradient), arena.gradients());
      exchange.run({.step = step, .density = 0.1}, arena.gradients(), timers);
      traces[static_cast<std::size_t>(communicator.rank())].add(exchange);
    }
  });
  return traces;
}

TEST_SUITE("trainer") {
  DRAGONN_DEVICE_TEST("gradients are exchanged on any device as on the host, bit for bit") {
    const std::vector<Combination> combinations{{"topk", "allgather", "residual"},
                                                {"topk", "index_union", "residual"},
                                                {"topk", "gtopk", "residual"},
                                                {"topk", "dsa", "residual"},
                                                {"topk", "oktopk", "residual"},
                                                {"cltk", "cltk", "residual"},
                                                {"randomk", "allgather", "residual"},
                                                {"dgc", "allgather", "momentum_correction"},
                                                {"dragonn", "allgather", "momentum_correction"},
                                                {"none", "allgather", "residual", "signsgd"}};
    for (const Combination& combination : combinations) {
      INFO(combination.name());
      const std::vector<Trace> expected = run(combination, {}), found = run(combination, device);
      for (std::size_t rank = 0; rank < expected.size(); ++rank) {
        INFO("rank ", rank);
        CHECK(found[rank].indices == expected[rank].indices);
        CHECK(found[rank].values == expected[rank].values);
        CHECK(found[rank].selected == expected[rank].selected);
      }
    }
  }
}

}  // namespace
}  // namespace dragonn::trainer::testing

// SPDX-License-Identifier: MIT
/// Tests of how often an exchange waits for a GPU, which does nothing for some microseconds after each wait.
#include <doctest/doctest.h>

#ifdef DRAGONN_EMULATES_CUDA
#include <string>
#include <vector>

#include "comm/local/local.h"
#include "core/rng.h"
#include "kernels/devices.h"
#include "tests/cuda_emulation/waits.h"
#include "tests/trainer/combinations.h"

namespace dragonn::trainer::testing {
namespace {

/// Returns how often one worker waits for its GPU in an exchange of this many buckets, all of one group, after steps in
/// which memory grows.
std::uint64_t waits_of_step(const Combination& combination, std::size_t buckets) {
  constexpr std::int64_t kInputs = 40, kOutputs = 30;
  constexpr std::uint64_t kSteps = 6;
  constexpr double kDensity = 0.02;  // lists have room for one entry in 32: longer ones grow, and wait once more
  const Device device{DeviceType::kCuda, 0};
  std::uint64_t waits = 0;
  comm::run_local(1, {}, [&](comm::Communicator& communicator) {
    ParameterArena arena(device);
    for (std::size_t i = 0; i < buckets; ++i)
      arena.declare("layer" + std::to_string(i) + ".weight", {kOutputs, kInputs}, ParameterRole::kWeight);
    arena.allocate();
    ExchangeRules rules = rules_of(combination);
    rules.fusion.bytes = arena.size() * sizeof(float);
    GradientExchange exchange(rules, arena, communicator);
    DRAGONN_CHECK(exchange.buckets().size() == buckets && exchange.groups().size() == 1, "one group of all tensors");
    StepTimers timers;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      std::vector<float> gradient(arena.size());
      Rng rng(step, "waits of an exchange");
      for (float& value : gradient) value = rng.normal();
      kernels::transfer(View<const float>(gradient), arena.gradients());
      const std::uint64_t before = emulation::waits_here();
      exchange.run({.step = step, .density = kDensity}, arena.gradients(), timers);
      waits = emulation::waits_here() - before;
    }
    DRAGONN_CHECK(timers.seconds(Verb::kSettle) > 0, "the parts of an exchange are timed");
  });
  return waits;
}

TEST_SUITE("trainer") {
  TEST_CASE("gpu: an exchange waits for the counts of each bucket's entries, and else as often for many as for few") {
    // The pass tells how many entries it found. With `dragonn` the number of those that hold their slots comes later.
    struct Expectation {
      Combination combination;
      std::uint64_t for_each_bucket;
    };
    for (const auto& [combination, for_each_bucket] :
         std::vector<Expectation>{{{"hard_threshold", "allgather", "residual"}, 1},
                                  {{"dragonn", "allgather", "residual"}, 2},
                                  {{"dragonn", "allgather", "momentum_correction"}, 2}}) {
      INFO(combination.name());
      const std::uint64_t few = waits_of_step(combination, 2), many = waits_of_step(combination, 12);
      INFO("2 buckets: ", few, " waits, 12 buckets: ", many);
      CHECK(few <= 2 * for_each_bucket + 2);
      CHECK(many <= 12 * for_each_bucket + 2);
    }
  }
}

}  // namespace
}  // namespace dragonn::trainer::testing
#endif

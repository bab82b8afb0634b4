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
#include "tests/exchange/combinations.h"

namespace dragonn::exchange::testing {
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
      exchange.commit(timers);
      waits = emulation::waits_here() - before;
    }
    DRAGONN_CHECK(timers.seconds(StepPart::kSettle) > 0, "the parts of an exchange are timed");
  });
  return waits;
}

TEST_SUITE("exchange") {
  TEST_CASE("gpu: an exchange waits as often for many buckets of a group as for few") {
    // Once for the counts of all passes, once for the copies of all selections, once at the end for the times.
    constexpr std::uint64_t kWaits = 3;
    struct Expectation {
      Combination combination;
      std::uint64_t for_each_bucket;  // topk asks for the threshold that it reports, when the GPU is done
    };
    for (const auto& [combination, for_each_bucket] :
         std::vector<Expectation>{{{"hard_threshold", "allgather", "residual"}, 0},
                                  {{"topk", "allgather", "none"}, 1},
                                  {{"dragonn", "allgather", "residual"}, 0},
                                  {{"dragonn", "allgather", "momentum_correction"}, 0}}) {
      INFO(combination.name());
      for (const std::size_t buckets : {2, 12}) {
        const std::uint64_t waits = waits_of_step(combination, buckets);
        INFO(buckets, " buckets: ", waits, " waits");
        CHECK(waits <= kWaits + buckets * for_each_bucket);
      }
    }
  }
}

}  // namespace
}  // namespace dragonn::exchange::testing
#endif

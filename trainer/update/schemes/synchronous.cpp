// SPDX-License-Identifier: MIT
#include <cmath>

#include "core/log.h"
#include "optim/clip.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer {
namespace {

/// Every step exchanges the gradients of all workers, and every worker applies their mean.
class Synchronous final : public UpdateScheme {
 public:
  StepOutcome step(Generation& generation, const StepValues& values) override {
    generation.compute_gradient();
    const std::uint64_t step = generation.state.progress.step;
    exchange::GradientExchange& exchange = *generation.gradient_exchange;
    const View<const float> gradient = generation.gradient();
    const bool may_skip = generation.config.train.non_finite == NonFinite::kSkip;  // then nothing overlaps
    exchange::StepWord word;
    if (may_skip) {
      // A failure in the exchange before is reported now, so that one word per step is enough.
      word = agree_on_step(
          generation,
          {.skip = !std::isfinite(optim::squared_norm(gradient)), .non_finite_bucket = exchange.non_finite_bucket()},
          step);
      if (word.skip) {
        log::warning(generation.communicator.rank(),
                     "step {}: a worker's gradient is not finite: all workers skip the step", step + 1);
        return {.is_exchanged = false, .stop = word.stop};
      }
    }
    StepTimers& timers = generation.sample.timers;
    const std::int64_t batches = generation.config.train.gradient_accumulation;
    const auto sums = exchange.run({.step = step,
                                    .density = values.density,
                                    .learning_rate = values.learning_rate,
                                    .gradient_scale = mean_scale(generation, gradient, batches),
                                    .accumulated = values.accumulated},
                                   gradient, timers, generation.overlapped.get());
    generation.finish_gradient();
    if (!may_skip) word = agree_on_step(generation, {.non_finite_bucket = exchange.non_finite_bucket()}, step + 1);
    exchange.commit(timers);
    apply_mean(generation, values, sums);
    return {.stop = word.stop};
  }

  bool is_synchronized() const override { return true; }
};

const Registration<UpdateSchemeEntry> registration{
    {{.name = "synchronous",
      .summary = "every step exchanges the gradients of all workers, and every worker applies their mean",
      .source = "docs/algorithms.md, section 0"},
     {},
     /*overlaps=*/true,
     /*steps_locally=*/false,
     [](const Settings&, ParameterArena&) { return std::make_unique<Synchronous>(); }}};

}  // namespace
}  // namespace dragonn::trainer

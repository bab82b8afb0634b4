// SPDX-License-Identifier: MIT
#include <cmath>

#include "core/fault_point.h"
#include "core/log.h"
#include "exchange/run_part.h"
#include "exchange/step_agreement.h"
#include "optim/clip.h"
#include "trainer/run/generation.h"
#include "trainer/run/signals.h"
#include "trainer/update/apply_sums.h"
#include "trainer/update/update_scheme.h"

namespace dragonn::trainer {
namespace {

/// Every step exchanges the gradients of all workers, and every worker applies their mean.
class Synchronous final : public UpdateScheme {
 public:
  StepOutcome step(Generation& generation, const StepValues& values) override {
    generation.compute_gradient();
    const std::uint64_t step = generation.state.progress.step;
    exchange::GradientExchange& exchange = *generation.gradient_exchange;
    const bool may_skip = generation.config.train.non_finite == NonFinite::kSkip;
    exchange::StepWord word;
    if (may_skip) {
      // A failure in the exchange before is reported now, so that one word per step is enough.
      word = agree_on_step(generation,
                           {.skip = !std::isfinite(optim::squared_norm(generation.gradient())),
                            .non_finite_bucket = exchange.non_finite_bucket()},
                           step);
      if (word.skip) {
        log::warning(generation.communicator.rank(),
                     "step {}: a worker's gradient is not finite: all workers skip the step", step + 1);
        return {.is_skipped = true, .stop = word.stop};
      }
    }
    const auto micro_batches = static_cast<float>(generation.config.train.gradient_accumulation);
    StepTimers& timers = generation.sample.timers;
    const auto sums = exchange.run({.step = step,
                                    .density = values.density,
                                    .learning_rate = values.learning_rate,
                                    .gradient_scale = local_clip(generation) / micro_batches,
                                    .accumulated = values.accumulated},
                                   generation.gradient(), timers, generation.overlapped.get());
    if (generation.overlapped) generation.overlapped->finish(timers);
    if (!may_skip) word = agree_on_step(generation, {.non_finite_bucket = exchange.non_finite_bucket()}, step + 1);
    exchange.commit(timers);
    const TrainConfig& train = generation.config.train;
    const int ranks = generation.communicator.size();
    const float scale =
        train.clip == Clip::kGlobal ? optim::clip_scale(mean_gradient_norm(sums, ranks), train.clip_norm) : 1.0f;
    optim::Optimizer& optimizer = *generation.state.optimizer;
    optimizer.begin_step(values.learning_rate, step);
    exchange::run_part(generation.state.device(), timers, StepPart::kOptimize,
                       [&] { apply_sums(sums, scale / static_cast<float>(ranks), optimizer); });
    return {.stop = word.stop};
  }

  bool is_synchronized() const override { return true; }

 private:
  /// Collective, once in every step. Agrees on the ranks' words and the signals that reached them. @throws
  /// comm::CollectiveError if a bucket was not finite in step `exchanged` (from 1).
  static exchange::StepWord agree_on_step(Generation& generation, exchange::StepWord mine, std::uint64_t exchanged) {
    fault_point("agree");
    mine.stop = StopSignals::received() != 0;
    exchange::StepWord agreed;
    exchange::run_part({}, generation.sample.timers, StepPart::kExchange,
                       [&] { agreed = exchange::reduce_step_word(generation.communicator, mine); });
    exchange::check_finite(agreed, exchanged, generation.gradient_exchange->buckets());
    return agreed;
  }

  static float local_clip(const Generation& generation) {
    const TrainConfig& train = generation.config.train;
    if (train.clip != Clip::kLocal && train.clip != Clip::kLocalSqrtWorkers) return 1.0f;
    // The accumulated gradient is a sum over micro-batches; their mean is clipped.
    const double norm =
        std::sqrt(optim::squared_norm(generation.gradient())) / static_cast<double>(train.gradient_accumulation);
    const int world_size = train.clip == Clip::kLocal ? 1 : generation.communicator.size();
    return optim::local_clip_scale(norm, train.clip_norm, world_size);
  }
};

const Registration<UpdateSchemeEntry> registration{
    {{.name = "synchronous",
      .summary = "every step exchanges the gradients of all workers, and every worker applies their mean",
      .source = "docs/algorithms.md, section 0"},
     {},
     [](const Settings&) { return std::make_unique<Synchronous>(); }}};

}  // namespace
}  // namespace dragonn::trainer

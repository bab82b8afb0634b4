// SPDX-License-Identifier: MIT
#include <cmath>
#include <memory>
#include <string>

#include "core/log.h"
#include "exchange/resize.h"
#include "kernels/devices.h"
#include "kernels/nn/elementwise.h"
#include "optim/clip.h"
#include "trainer/config/exchange_config.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kDelayed = "gradient";

/// Every step exchanges a gradient of all workers, and every worker applies their mean: that of the step, or with a
/// delay that of the step before, whose exchange needs nothing from this step and can run beside its backward.
class Synchronous final : public UpdateScheme {
 public:
  Synchronous(const Settings& settings, const ParameterArena& arena)
      : is_delayed_(settings.integer("delay_steps") > 0),
        delayed_(is_delayed_ ? arena.size() : 0, arena.gradients().device()) {}

  StepOutcome step(Generation& generation, const StepValues& values) override {
    generation.compute_gradient();
    if (!is_delayed_) return exchange_and_apply(generation, values, generation.gradient(), 0);
    StepOutcome outcome{.is_exchanged = false};
    if (has_delayed_) {
      outcome = exchange_and_apply(generation, values, delayed_.view(), 1);
    } else {
      outcome.stop = agree_on_step(generation, {}, generation.state.progress.step + 1).stop;
      generation.finish_gradient();
    }
    kernels::copy(generation.gradient(), delayed_.view());
    has_delayed_ = true;
    return outcome;
  }

  bool is_synchronized() const override { return true; }

  void save(Archive& rank, const std::string& prefix) const override {
    if (has_delayed_) kernels::put_view(rank, prefix + kDelayed, delayed_.view());
  }
  void load(const Archive& rank, const std::string& prefix) override {
    has_delayed_ = false;
    reshard_from(rank, prefix, {});
  }
  void reshard_from(const Archive& rank, const std::string& prefix, const exchange::ReshardedParts& what) override {
    // A run without a delay, or one that has made no step, leaves no gradient.
    if (!exchange::has_fields(rank, prefix + kDelayed)) return;
    require(is_delayed_,
            "update.delay_steps = 0: the checkpoint holds a gradient that is not exchanged yet: expected 1, as before");
    if (!has_delayed_) kernels::fill(0, delayed_.view());
    has_delayed_ = true;
    if (!what.memories) return;
    Buffer<float> saved(delayed_.size(), delayed_.device());
    kernels::get_view(rank, prefix + kDelayed, saved.view());
    kernels::add(delayed_.view(), saved.view(), delayed_.view());
  }

 private:
  /// Exchanges the gradient of the step `delay` steps ago, and applies the mean behind this step's backward.
  StepOutcome exchange_and_apply(Generation& generation, const StepValues& values, View<const float> gradient,
                                 std::uint64_t delay) {
    const std::uint64_t step = generation.state.progress.step - delay;  // of the gradient
    exchange::GradientExchange& exchange = *generation.gradient_exchange;
    const bool may_skip = generation.config.train.non_finite == NonFinite::kSkip;  // then the gate is not used
    exchange::StepWord word;
    if (may_skip) {
      // A failure in the exchange before is reported now, so that one word per step is enough.
      word = agree_on_step(
          generation,
          {.skip = !std::isfinite(optim::squared_norm(gradient)), .non_finite_bucket = exchange.non_finite_bucket()},
          step);
      if (word.skip) {
        generation.finish_gradient();
        log::warning(generation.communicator.rank(),
                     "step {}: a worker's gradient is not finite: all workers skip the step", step + 1);
        return {.is_exchanged = false, .stop = word.stop};
      }
    }
    StepTimers& timers = generation.sample.timers;
    const std::int64_t batches = generation.config.train.gradient_accumulation;
    const double begin = generation.communicator.now();
    const auto sums = exchange.run({.step = step,
                                    .density = values.density,
                                    .learning_rate = values.learning_rate,
                                    .rate_share = values.rate_share,
                                    .gradient_scale = mean_scale(generation, gradient, batches),
                                    .accumulated = values.accumulated},
                                   gradient, timers, delay == 0 ? generation.overlapped.get() : nullptr);
    if (delay > 0 && generation.overlapped) generation.overlapped->note_exchange(begin);
    generation.finish_gradient();
    if (!may_skip) word = agree_on_step(generation, {.non_finite_bucket = exchange.non_finite_bucket()}, step + 1);
    exchange.commit(timers);
    apply_mean(generation, values, sums, step);
    return {.stop = word.stop};
  }

  bool is_delayed_;
  Buffer<float> delayed_;  // this rank's gradient of the last step, which is not exchanged yet
  bool has_delayed_ = false;
};

const Registration<UpdateSchemeEntry> registration{[](UpdateSchemeEntry& entry) {
  entry.name = "synchronous";
  entry.summary = "every step exchanges the gradients of all workers, and every worker applies their mean";
  entry.source = "docs/algorithms.md, section 0; the delay: docs/algorithms.md, section 8";
  entry.settings = {
      average_spec(),
      SettingSpec::integer("delay_steps", 0,
                           "1: a step exchanges and applies the gradients of the step before, so that with "
                           "compression.overlap all of the exchange runs beside backward; 0: its own",
                           0, 1)};
  entry.overlaps = true;
  entry.resize = {OnResize::kReshard,
                  "adds up gradients that wait for their exchange (update.delay_steps = 1), so that their sum stays"};
  entry.make = [](const Settings& settings, ParameterArena& arena) {
    return std::make_unique<Synchronous>(settings, arena);
  };
  entry.traits = [](const Settings& settings) {
    UpdateTraits traits{.averages_senders = averages_senders(settings)};
    traits.delays = settings.integer("delay_steps") > 0;
    if (traits.delays) traits.floats_per_parameter = traits.own_floats_per_parameter = 1;
    return traits;
  };
}};

}  // namespace
}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/update/schemes/inner_steps.h"

#include <cmath>

#include "core/log.h"
#include "exchange/run_part.h"
#include "optim/clip.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::trainer {
namespace {

void make_step(Generation& generation, std::uint64_t step, double learning_rate, StepSample& sample) {
  generation.compute_gradient(step, sample);
  generation.finish_gradient();
  const TrainConfig& train = generation.config.train;
  const View<const float> gradient = generation.gradient();
  if (train.non_finite == NonFinite::kSkip && !std::isfinite(optim::squared_norm(gradient))) {
    log::warning(generation.communicator.rank(), "step {}: this worker's gradient is not finite: it skips the step",
                 step + 1);
    return;
  }
  const float scale = mean_scale(generation, gradient, train.gradient_accumulation);
  optim::Optimizer& optimizer = *generation.state.optimizer;
  exchange::run_part(generation.state.device(), sample.timers, StepPart::kOptimize, [&] {
    optimizer.begin_step(learning_rate, step);
    optimizer.update({.size = gradient.size()}, gradient, scale);
  });
}

}  // namespace

void InnerSteps::start_ahead(Generation& generation, std::uint64_t count) {
  if (!generation.compute_thread) return;
  DRAGONN_CHECK(!is_ahead(), "inner steps are started while others are under way");
  ComputeThread& thread = *generation.compute_thread;
  const TrainingState& state = generation.state;
  ahead_.resize(count);
  computed_ = taken_ = 0;
  for (std::uint64_t step = state.progress.step; Ahead & ahead : ahead_) {
    ahead = {.step = step, .learning_rate = state.learning_rate(step)};
    ahead.sample.timers = StepTimers(thread.clock());
    ++step;
  }
  work_ = [this, &generation] {
    ComputeThread& own = *generation.compute_thread;
    for (Ahead& ahead : ahead_) {
      make_step(generation, ahead.step, ahead.learning_rate, ahead.sample);
      own.publish([&] {
        ahead.end = own.clock().moment();
        ++computed_;
        return true;
      });
    }
  };
  thread.start(work_);
  thread.wait_for([] { return true; });  // the caller's own passes take one core from now on
}

void InnerSteps::step(Generation& generation, const StepValues& values) {
  StepSample& sample = generation.sample;
  if (!generation.compute_thread) {
    make_step(generation, generation.state.progress.step, values.learning_rate, sample);
    end_ = generation.communicator.now();
    return;
  }
  if (!is_ahead()) start_ahead(generation, 1);
  ComputeThread& thread = *generation.compute_thread;
  const Ahead& ahead = ahead_[taken_];
  {
    const Span span(Track::kExchange, "wait for inner step");
    thread.wait_for([&] { return computed_ > taken_; });
    thread.caller_clock().advance_to(ahead.end);
  }
  DRAGONN_CHECK(ahead.step == generation.state.progress.step, "inner step {} comes in the place of {}", ahead.step,
                generation.state.progress.step);
  sample.loss_sum = ahead.sample.loss_sum;
  sample.count = ahead.sample.count;
  add_times(ahead.sample.timers, sample.timers);
  end_ = ahead.end.seconds;
  if (++taken_ == ahead_.size()) thread.finish();
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/update/schemes/step.h"

#include <cmath>

#include "core/fault_point.h"
#include "exchange/run_part.h"
#include "optim/clip.h"
#include "trainer/update/logged_update.h"

namespace dragonn::trainer {

exchange::StepWord agree_on_step(Generation& generation, exchange::StepWord mine, std::uint64_t exchanged) {
  fault_point("agree");
  mine.stop = generation.state.commits.wants_stop();
  exchange::StepWord agreed = mine;  // if the step counts although this rank has not heard of all
  generation.state.commits.run([&] {
    exchange::run_part({}, generation.sample.timers, StepPart::kExchange,
                       [&] { agreed = exchange::reduce_step_word(generation.communicator, mine); });
    exchange::check_finite(agreed, exchanged, generation.gradient_exchange->buckets());
  });
  return agreed;
}

float mean_scale(const Generation& generation, View<const float> sum, std::int64_t batches) {
  const TrainConfig& train = generation.config.train;
  const float share = 1.0f / static_cast<float>(batches);
  if (train.clip != Clip::kLocal && train.clip != Clip::kLocalSqrtWorkers) return share;
  const double norm = std::sqrt(optim::squared_norm(sum)) / static_cast<double>(batches);
  const int workers = train.clip == Clip::kLocal ? 1 : generation.communicator.size();
  return optim::local_clip_scale(norm, train.clip_norm, workers) / static_cast<float>(batches);
}

void apply_mean(Generation& generation, const StepValues& values, std::span<const exchange::BucketSum> sums,
                std::uint64_t step) {
  const TrainConfig& train = generation.config.train;
  float scale = 1;
  if (train.clip == Clip::kGlobal) {
    double squares = 0;
    for (const exchange::BucketSum& sum : sums) squares += optim::squared_norm(sum.values());
    scale = optim::clip_scale(std::sqrt(squares) / generation.gradient_exchange->terms(), train.clip_norm);
  }
  optim::Optimizer& optimizer = *generation.state.optimizer;
  optimizer.begin_step(values.learning_rate, step);
  exchange::run_part(generation.state.device(), generation.sample.timers, StepPart::kOptimize,
                     [&] { apply_sums(sums, scale, optimizer); });
  generation.state.tell_update({values.learning_rate, step, scale, sums});
}

void add_times(const StepTimers& times, StepTimers& sum) {
  for (std::size_t part = 0; part < kStepPartNames.size(); ++part)
    sum.add(static_cast<StepPart>(part), times.all()[part]);
}

}  // namespace dragonn::trainer

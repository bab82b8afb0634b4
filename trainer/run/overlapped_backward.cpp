// SPDX-License-Identifier: MIT
#include "trainer/run/overlapped_backward.h"

#include <algorithm>

#include "core/error.h"
#include "exchange/run_part.h"

namespace dragonn::trainer {
namespace {

/// Returns the bucket that holds each parameter.
std::vector<std::size_t> buckets_of(const ParameterArena& arena, const std::vector<exchange::Bucket>& buckets) {
  std::vector<std::size_t> result;
  for (const Parameter& parameter : arena.parameters()) {
    const auto holder = std::ranges::find_if(buckets, [&](const exchange::Bucket& bucket) {
      return parameter.offset >= bucket.offset && parameter.offset < bucket.offset + bucket.size;
    });
    DRAGONN_CHECK(holder != buckets.end(), "parameter {} is in no bucket", parameter.name);
    result.push_back(static_cast<std::size_t>(holder - buckets.begin()));
  }
  return result;
}

}  // namespace

OverlappedBackward::OverlappedBackward(ComputeThread& thread, const ParameterArena& arena,
                                       const std::vector<exchange::Bucket>& buckets, Pass pass)
    : thread_(thread),
      work_([this, pass = std::move(pass), ready = layers::GradientReady([this](ParameterId parameter) {
                                             thread_.publish([&] { return mark_final(parameter); });
                                           })] {
        const Span span(exchange::track_of(StepPart::kBackward), exchange::part_name(StepPart::kBackward));
        pass(ready);
      }),
      bucket_of_(buckets_of(arena, buckets)),
      parameters_in_(buckets.size()),
      progress_(buckets.size()) {
  DRAGONN_CHECK(!buckets.empty(), "there is no gradient to exchange");
  for (const std::size_t bucket : bucket_of_) ++parameters_in_[bucket];
}

void OverlappedBackward::start() {
  for (std::size_t bucket = 0; bucket < progress_.size(); ++bucket) progress_[bucket] = {parameters_in_[bucket]};
  thread_.start(work_);
}

void OverlappedBackward::open(std::size_t bucket) {
  const Span span(Track::kExchange, "wait for backward");
  Progress& progress = progress_[bucket];
  thread_.wait_for([&] { return progress.missing == 0; });
  // The end of the pass makes all gradients final.
  thread_.caller_clock().advance_to(progress.missing == 0 ? progress.final_at : thread_.end());
  progress.opened = thread_.caller_clock().now();
}

void OverlappedBackward::close(std::size_t bucket) {
  progress_[bucket].closed = thread_.caller_clock().now();
}

void OverlappedBackward::finish(StepTimers& timers) {
  const Span span(Track::kExchange, "wait for backward");
  const auto [begin, end] = thread_.finish();
  timers.add(StepPart::kBackward, end.seconds - begin.seconds);
  for (const Progress& progress : progress_) {
    timers.add(StepPart::kExchangeHidden, std::max(0.0, std::min(progress.closed, end.seconds) - progress.opened));
  }
  timers.add(StepPart::kExchangeExposed, std::max(0.0, progress_.back().closed - end.seconds));
}

bool OverlappedBackward::mark_final(ParameterId parameter) {
  Progress& progress = progress_[bucket_of_[parameter]];
  if (--progress.missing > 0) return false;
  progress.final_at = thread_.clock().moment();
  return true;
}

}  // namespace dragonn::trainer

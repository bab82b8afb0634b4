// SPDX-License-Identifier: MIT
#include "trainer/exchange/overlapped_backward.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <omp.h>

#include "core/error.h"
#include "exchange/run_verb.h"

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

OverlappedBackward::OverlappedBackward(comm::Communicator& communicator, const ParameterArena& arena,
                                       const std::vector<exchange::Bucket>& buckets, Pass pass)
    : clock_(communicator.clock()),
      pass_clock_(communicator.fork_clock()),
      pass_(std::move(pass)),
      ready_([this](ParameterId parameter) { mark_final(parameter); }),
      bucket_of_(buckets_of(arena, buckets)),
      parameters_in_(buckets.size()),
      exchanged_(buckets.size()),
      threads_(omp_get_max_threads()),
      caller_threads_(threads_),
      progress_(buckets.size()) {
  DRAGONN_CHECK(!buckets.empty(), "there is no gradient to exchange");
  for (const std::size_t bucket : bucket_of_) ++parameters_in_[bucket];
  try {
    thread_ = std::thread([this, rank = communicator.rank()] {
      const ScopedRank scope(rank);
      work();
    });
  } catch (const std::system_error& error) {
    throw SystemError(
        fmt::format("cannot start the thread of backward (compression.overlap = true): {}", error.what()));
  }
}

OverlappedBackward::~OverlappedBackward() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  set_caller_threads(threads_);
}

void OverlappedBackward::start() {
  {
    const std::scoped_lock lock(mutex_);
    DRAGONN_CHECK(state_ == State::kIdle, "backward is started before it was finished");
    state_ = State::kRunning;
    timeline_ = this_recording().timeline;
    pass_time_.begin = clock_.moment();
    for (std::size_t bucket = 0; bucket < progress_.size(); ++bucket) progress_[bucket] = {parameters_in_[bucket]};
  }
  changed_.notify_all();
}

void OverlappedBackward::open(std::size_t bucket) {
  const Span span(Track::kExchange, "wait for backward");
  bool running = false;
  Moment final_at;
  {
    std::unique_lock lock(mutex_);
    DRAGONN_CHECK(state_ != State::kIdle, "bucket {} is waited for before backward is started", bucket);
    const Progress& progress = progress_[bucket];
    changed_.wait(lock, [&] { return progress.missing == 0 || state_ == State::kEnded; });
    if (failure_) std::rethrow_exception(failure_);
    running = state_ == State::kRunning;
    final_at = progress.missing == 0 ? progress.final_at : pass_time_.end;
  }
  set_caller_threads(running ? 1 : threads_);
  clock_.advance_to(final_at);
  exchanged_[bucket].begin = clock_.now();
}

void OverlappedBackward::close(std::size_t bucket) {
  exchanged_[bucket].end = clock_.now();
}

void OverlappedBackward::finish(StepTimers& timers) {
  const Span span(Track::kExchange, "wait for backward");
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state_ != State::kRunning; });
    if (failure_) std::rethrow_exception(failure_);
    state_ = State::kIdle;
  }
  set_caller_threads(threads_);
  clock_.advance_to(pass_time_.end);
  const double pass_end = pass_time_.end.seconds;
  timers.add(Verb::kBackward, pass_end - pass_time_.begin.seconds);
  for (const Interval& interval : exchanged_) {
    timers.add(Verb::kExchangeHidden, std::max(0.0, std::min(interval.end, pass_end) - interval.begin));
  }
  timers.add(Verb::kExchangeExposed, std::max(0.0, exchanged_.back().end - pass_end));
}

void OverlappedBackward::work() {
  // Plans are made for the number of threads that they will run on, and every thread has its own number.
  omp_set_num_threads(threads_);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || state_ == State::kRunning; });
      if (stopping_) return;
    }
    run_pass();
  }
}

void OverlappedBackward::run_pass() {
  std::exception_ptr failure;
  pass_clock_->take_over();
  pass_clock_->advance_to(pass_time_.begin);
  try {
    const ScopedRecording recording(timeline_, *pass_clock_);
    const Span span(exchange::track_of(Verb::kBackward), exchange::verb_name(Verb::kBackward));
    pass_(ready_);
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::scoped_lock lock(mutex_);
    pass_time_.end = pass_clock_->moment();
    failure_ = failure;
    state_ = State::kEnded;
  }
  changed_.notify_all();
}

void OverlappedBackward::mark_final(ParameterId parameter) {
  {
    const std::scoped_lock lock(mutex_);
    Progress& progress = progress_[bucket_of_[parameter]];
    if (--progress.missing > 0) return;
    progress.final_at = pass_clock_->moment();
  }
  changed_.notify_all();
}

void OverlappedBackward::set_caller_threads(int threads) {
  if (threads == caller_threads_) return;
  omp_set_num_threads(threads);
  caller_threads_ = threads;
}

}  // namespace dragonn::trainer

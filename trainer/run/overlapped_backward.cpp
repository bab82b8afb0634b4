// SPDX-License-Identifier: MIT
#include "trainer/run/overlapped_backward.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <omp.h>

#include "core/error.h"
#include "exchange/run_part.h"

namespace dragonn::trainer {
namespace {

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

ComputeThread::ComputeThread(comm::Communicator& communicator)
    : caller_clock_(communicator.clock()),
      clock_(communicator.fork_clock()),
      threads_(omp_get_max_threads()),
      caller_threads_(threads_) {
  try {
    thread_ = std::thread([this, rank = communicator.rank()] {
      const ScopedRank scope(rank);
      serve();
    });
  } catch (const std::system_error& error) {
    throw SystemError(fmt::format("cannot start a worker's computing thread: {}", error.what()));
  }
}

ComputeThread::~ComputeThread() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  set_caller_threads(threads_);
}

void ComputeThread::start(const Work& work) {
  {
    const std::scoped_lock lock(mutex_);
    DRAGONN_CHECK(state_ == State::kIdle, "the computing thread is started before it was finished");
    state_ = State::kRunning;
    work_ = &work;
    timeline_ = this_recording().timeline;
    time_.begin = caller_clock_.moment();
  }
  changed_.notify_all();
}

ComputeThread::Interval ComputeThread::finish() {
  wait_for([] { return false; });
  {
    const std::scoped_lock lock(mutex_);
    state_ = State::kIdle;
  }
  caller_clock_.advance_to(time_.end);
  return time_;
}

void ComputeThread::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != State::kRunning; });
}

void ComputeThread::serve() {
  // Plans are made for the number of threads that they will run on, and every thread has its own number.
  omp_set_num_threads(threads_);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || state_ == State::kRunning; });
      if (stopping_) return;
    }
    run();
  }
}

void ComputeThread::run() {
  std::exception_ptr failure;
  clock_->attach_to_this_thread();
  clock_->advance_to(time_.begin);
  try {
    const ScopedRecording recording(timeline_, *clock_);
    (*work_)();
  } catch (...) {
    failure = std::current_exception();
  }
  publish([&] {
    time_.end = clock_->moment();
    failure_ = failure;
    state_ = State::kEnded;
    return true;
  });
}

void ComputeThread::set_caller_threads(int threads) {
  if (threads == caller_threads_) return;
  omp_set_num_threads(threads);
  caller_threads_ = threads;
}

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

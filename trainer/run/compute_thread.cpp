// SPDX-License-Identifier: MIT
#include "trainer/run/compute_thread.h"

#include <system_error>

#include <fmt/format.h>
#include <omp.h>

namespace dragonn::trainer {

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

}  // namespace dragonn::trainer

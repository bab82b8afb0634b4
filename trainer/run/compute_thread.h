// SPDX-License-Identifier: MIT
/// ComputeThread: a worker's second thread, which computes while the worker's own communicates.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "comm/communicator.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/timeline.h"

namespace dragonn::trainer {

/// Runs one piece of work at a time beside the caller, which stays the one that communicates, because all MPI calls of
/// a process come from one thread.
///
/// OpenMP: the work has as many threads as the caller had at construction, so that its bits are those of work in the
/// caller. While it runs, the caller has one, so that cores are not used twice.
///
/// Times: the work has a clock of its own, which begins at the caller's time, and ends where the caller's goes on.
///
/// Waits have no deadline: they are for work that computes and waits for nobody. After start() nothing here allocates.
class ComputeThread {
 public:
  using Work = std::function<void()>;
  struct Interval {
    Moment begin, end;
  };

  /// Starts the thread, which sleeps until start(). @throws SystemError if it cannot be started.
  explicit ComputeThread(comm::Communicator& communicator);
  /// Waits for the end of running work: the objects that it uses must live until then.
  ~ComputeThread();
  ComputeThread(const ComputeThread&) = delete;
  ComputeThread& operator=(const ComputeThread&) = delete;

  /// Starts the work, which the caller keeps until finish(). The work's spans go to the caller's timeline.
  void start(const Work& work);
  /// Makes a change that the caller may wait for; called by the work. @param change returns whether to wake the caller.
  template <class Change>
  void publish(const Change& change) {
    {
      const std::scoped_lock lock(mutex_);
      if (!change()) return;
    }
    changed_.notify_all();
  }
  /// Waits until something is `reached`, or the work has ended; called by the caller. @throws the work's error.
  template <class Reached>
  void wait_for(const Reached& reached) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state_ != State::kRunning || reached(); });
    DRAGONN_CHECK(state_ != State::kIdle, "the computing thread is waited for before it was started");
    if (failure_) std::rethrow_exception(failure_);
    set_caller_threads(state_ == State::kRunning ? 1 : threads_);
  }
  /// Waits for the end of the work, and returns its time. @throws the work's error.
  Interval finish();
  /// Waits for the end of running work, whatever it throws.
  void drain();
  /// Returns the end of work that has ended.
  Moment end() const { return time_.end; }

  /// The caller's clock, and the work's.
  Clock& caller_clock() { return caller_clock_; }
  const Clock& clock() const { return *clock_; }

 private:
  enum class State { kIdle, kRunning, kEnded };

  void serve();
  void run();
  void set_caller_threads(int threads);

  Clock& caller_clock_;
  std::unique_ptr<Clock> clock_;
  int threads_;  // OpenMP threads of the work
  int caller_threads_;

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;
  bool stopping_ = false;
  const Work* work_ = nullptr;
  Interval time_;
  Timeline* timeline_ = nullptr;  // null if it is not recorded
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace dragonn::trainer

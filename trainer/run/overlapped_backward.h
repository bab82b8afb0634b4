// SPDX-License-Identifier: MIT
/// ComputeThread: a worker's second thread. OverlappedBackward: runs backward beside the exchange of the buckets that
/// it has finished.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/parameter.h"
#include "core/timeline.h"
#include "core/timer.h"
#include "exchange/buckets.h"
#include "exchange/gradient_exchange.h"
#include "layers/network.h"

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
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state_ != State::kRunning; });
  }
  /// Returns the end of work that has ended.
  Moment end() const { return time_.end; }

  /// The caller's clock, and the work's.
  Clock& caller_clock() { return caller_clock_; }
  Clock& clock() { return *clock_; }
  /// Returns whether the calling thread is the one that works.
  bool is_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

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

/// Runs one backward pass per step: start(), then GradientExchange::run with this as its gate, then finish(). Results
/// of the caller's passes over buckets do not depend on its number of threads meanwhile.
///
/// If times are virtual, a bucket begins when its gradient is final on the pass's clock and the bucket before is
/// settled on the caller's. Errors of the pass are thrown in the caller, where it would need the missing result.
class OverlappedBackward final : public exchange::GroupGate {
 public:
  /// Runs backward; calls its argument as soon as a parameter's gradient is final.
  using Pass = std::function<void(const layers::GradientReady&)>;

  /// @param thread outlives this object.
  OverlappedBackward(ComputeThread& thread, const ParameterArena& arena, const std::vector<exchange::Bucket>& buckets,
                     Pass pass);
  /// Waits for the end of a running pass: the objects that it uses must live until then.
  ~OverlappedBackward() override { thread_.drain(); }
  OverlappedBackward(const OverlappedBackward&) = delete;
  OverlappedBackward& operator=(const OverlappedBackward&) = delete;

  /// Starts the pass.
  void start();
  /// Waits for the bucket's last gradient. @throws the pass's error.
  void open(std::size_t bucket) override;
  void close(std::size_t bucket) override { progress_[bucket].closed = thread_.caller_clock().now(); }
  /// Notes an exchange that needed nothing of this pass, in the place of open() and close(): it began at `begin`, by
  /// the caller's clock, and ends now.
  void note_exchange(double begin) {
    progress_.back().opened = progress_.front().closed = progress_.back().closed = thread_.caller_clock().now();
    progress_.front().opened = begin;  // the last one, if it is another, took no time
  }
  /// Waits for the end of the pass. Adds the time of backward, how much of the time between open() and close() was
  /// hidden behind it, and how long after it the last bucket was closed. @throws the pass's error.
  void finish(StepTimers& timers);

 private:
  /// A bucket in one step.
  struct Progress {
    std::size_t missing = 0;        ///< parameters whose gradients are not final
    Moment final_at = {};           ///< time of the last one
    double opened = 0, closed = 0;  ///< by the caller's clock
  };

  bool mark_final(ParameterId parameter);

  ComputeThread& thread_;
  ComputeThread::Work work_;            // made once, as it allocates
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<std::size_t> parameters_in_;
  std::vector<Progress> progress_;  // by bucket; the thread publishes the first two fields
};

}  // namespace dragonn::trainer

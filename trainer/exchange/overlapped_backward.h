// SPDX-License-Identifier: MIT
/// OverlappedBackward: runs backward in a second thread, beside the exchange of the buckets that it has finished.
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
#include "core/parameter.h"
#include "core/timeline.h"
#include "core/timer.h"
#include "exchange/buckets.h"
#include "exchange/gradient_exchange.h"
#include "layers/network.h"

namespace dragonn::trainer {

/// Runs one backward pass per step: start(), then GradientExchange::run with this as its gate, then finish(). The
/// calling thread stays the one that communicates, because all MPI calls of a process come from one thread; backward
/// moves to another.
///
/// Threads: the pass has as many OpenMP threads as the caller had at construction, so that its bits are those of a pass
/// in the caller. While it runs, the caller's own passes over buckets have one, so that cores are not used twice; their
/// results do not depend on it.
///
/// Times are by the communicator's clock, and for the pass by a second clock. If they are virtual, a bucket begins when
/// its gradient is final on the one and the bucket before is settled on the other.
///
/// Waits have no deadline: they are for a pass that computes and waits for nobody, as if the caller computed it itself.
/// Errors of the pass are thrown in the caller, where it would need the missing result. After start() nothing here
/// allocates.
class OverlappedBackward final : public exchange::GroupGate {
 public:
  /// Runs backward; calls its argument as soon as a parameter's gradient is final.
  using Pass = std::function<void(const layers::GradientReady&)>;

  /// Starts the thread, which sleeps until start(). @throws SystemError if it cannot be started.
  OverlappedBackward(comm::Communicator& communicator, const ParameterArena& arena,
                     const std::vector<exchange::Bucket>& buckets, Pass pass);
  /// Waits for the end of a running pass: the objects that it uses must live until then.
  ~OverlappedBackward() override;
  OverlappedBackward(const OverlappedBackward&) = delete;
  OverlappedBackward& operator=(const OverlappedBackward&) = delete;

  /// Starts the pass.
  void start();
  /// Waits for the bucket's last gradient. @throws the pass's error.
  void open(std::size_t bucket) override;
  void close(std::size_t bucket) override;
  /// Waits for the end of the pass. Adds the time of backward, how much of the time between open() and close() was
  /// hidden behind it, and how long after it the last bucket was closed. @throws the pass's error.
  void finish(StepTimers& timers);

 private:
  enum class State { kIdle, kRunning, kEnded };
  struct Interval {
    double begin = 0, end = 0;
  };
  struct PassTime {
    Moment begin, end;
  };
  /// The pass's progress in a bucket.
  struct Progress {
    std::size_t missing = 0;  ///< parameters whose gradients are not final
    Moment final_at = {};     ///< time of the last one
  };

  void work();
  void run_pass();
  void mark_final(ParameterId parameter);
  void set_caller_threads(int threads);

  Clock& clock_;                       // the caller's
  std::unique_ptr<Clock> pass_clock_;  // the thread's
  Pass pass_;
  layers::GradientReady ready_;         // marks; made once, as it allocates
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<std::size_t> parameters_in_;
  std::vector<Interval> exchanged_;  // by bucket; the caller's
  int threads_;                      // OpenMP threads of the pass
  int caller_threads_;

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;
  bool stopping_ = false;
  std::vector<Progress> progress_;  // by bucket
  PassTime pass_time_;
  Timeline* timeline_ = nullptr;  // of the step that runs; null if it is not recorded
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace dragonn::trainer

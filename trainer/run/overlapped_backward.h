// SPDX-License-Identifier: MIT
/// OverlappedBackward: runs backward beside the exchange of the buckets that it has finished.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "core/parameter.h"
#include "core/timer.h"
#include "exchange/buckets.h"
#include "exchange/gradient_exchange.h"
#include "layers/network.h"
#include "trainer/run/compute_thread.h"

namespace dragonn::trainer {

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
  void close(std::size_t bucket) override;
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

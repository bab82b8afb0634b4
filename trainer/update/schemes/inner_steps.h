// SPDX-License-Identifier: MIT
/// InnerSteps: the steps of a rank's own optimizer, computed when they come or ahead of that beside an exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/clock.h"
#include "trainer/run/generation.h"
#include "trainer/run/overlapped_backward.h"
#include "trainer/update/update_scheme.h"

namespace dragonn::trainer {

/// Makes the inner steps of one rank. Local; no message. In a generation with a computing thread it makes all of them,
/// so that those which start_ahead() begins go on while the caller communicates; without one the caller makes them,
/// with the same bits.
class InnerSteps {
 public:
  /// Starts the next `count` steps. None may be under way. The rank's parameters, optimizer and data belong to the
  /// computing thread until step() has returned them all. Does nothing without that thread.
  void start_ahead(Generation& generation, std::uint64_t count);
  /// Makes the next step of the run, or waits for it. Its loss and times go to Generation::sample.
  void step(Generation& generation, const StepValues& values);
  /// Returns whether steps are under way that step() has not returned.
  bool is_ahead() const { return taken_ < ahead_.size(); }
  /// Returns the time at which the last step that was returned ended.
  double end() const { return end_; }

 private:
  struct Ahead {
    std::uint64_t step = 0;  ///< of the run, from 0
    double learning_rate = 0;
    StepSample sample = {};
    Moment end = {};
  };

  std::vector<Ahead> ahead_;
  std::size_t computed_ = 0;  // of these; published by the computing thread
  std::size_t taken_ = 0;
  double end_ = 0;
  ComputeThread::Work work_;
};

}  // namespace dragonn::trainer

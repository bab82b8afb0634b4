// SPDX-License-Identifier: MIT
/// StepTimes: the time of training steps by part, as a summary names the parts.
#pragma once

#include "core/timer.h"

namespace dragonn::trainer {

/// The seconds of one rank. Without overlap a step consists of computing, selecting and exchanging; with overlap, of
/// computing and of the exposed part of the exchange.
struct StepTimes {
  double computing = 0;   ///< loading, forward, backward and the update
  double selecting = 0;   ///< error feedback, selection or quantization, decoding
  double exchanging = 0;  ///< messages, and the wait for those of slower workers
  double exposed = 0;     ///< with overlap: time that the exchange added to the step
  double hidden = 0;      ///< with overlap: time of the exchange behind backward
  double backward = 0;    ///< the part of computing in backward passes, without the first step, which also sets up
  int steps = 0;
  bool overlapped = false;

  /// Adds the timers of one step.
  void add(const StepTimers& timers, bool overlaps);
  double total() const { return computing + (overlapped ? exposed : selecting + exchanging); }
  /// Returns the share of a step's time that is communication not hidden by computing. With overlap, selecting behind
  /// backward counts, too.
  double exposed_share() const;
};

}  // namespace dragonn::trainer

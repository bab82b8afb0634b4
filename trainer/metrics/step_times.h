// SPDX-License-Identifier: MIT
/// StepTimes: where the time of training steps went, in the words of a summary.
#pragma once

#include "core/timer.h"

namespace dragonn::trainer {

/// One rank's seconds. With overlap the exchange runs beside backward: then a step consists of computing and of the
/// exposed part, and elsewhere of computing, selecting and exchanging.
struct StepTimes {
  double computing = 0;   ///< loading, forward, backward and the update
  double selecting = 0;   ///< error feedback, selection or quantization, decoding
  double exchanging = 0;  ///< messages, and the wait for those of slower workers
  double exposed = 0;     ///< with overlap: what the exchange added to the step
  double hidden = 0;      ///< with overlap: what ran behind backward
  double backward = 0;    ///< of computing: backward passes, but for the first step, which also sets up
  int steps = 0;
  bool overlapped = false;

  /// Adds what the timers hold of one step.
  void add(const StepTimers& timers, bool overlaps);
  double total() const { return computing + (overlapped ? exposed : selecting + exchanging); }
  /// Share of the step that is communication which computing does not hide; with overlap the selection behind backward
  /// counts in.
  double exposed_share() const;
};

}  // namespace dragonn::trainer

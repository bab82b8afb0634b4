// SPDX-License-Identifier: MIT
/// One part of a training step: timed, and named for profilers.
#pragma once

#include "core/timer.h"
#include "kernels/devices.h"
#include "kernels/trace.h"

namespace dragonn::trainer {

/// Runs `work`, whose time goes to `verb`. Work on a GPU is only started by the calls that ask for it, so that the part
/// ends by waiting for it: else its time would be counted where somebody waits next.
template <class Work>
void run_verb(const Device& device, StepTimers& timers, Verb verb, Work&& work) {
  const kernels::TraceRange range(device, kVerbNames[static_cast<std::size_t>(verb)]);
  const ScopedTimer timer(timers, verb);
  work();
  kernels::synchronize(device);
}

}  // namespace dragonn::trainer

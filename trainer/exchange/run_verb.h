// SPDX-License-Identifier: MIT
/// Verbs: parts of a training step, timed, and named for profilers.
#pragma once

#include "core/timer.h"
#include "kernels/devices.h"
#include "kernels/trace.h"

namespace dragonn::trainer {

/// Runs `work`, whose time goes to `verb`. The calls only start work on a GPU, so the part ends by waiting for it:
/// otherwise its time would count at the next wait.
template <class Work>
void run_verb(const Device& device, StepTimers& timers, Verb verb, Work&& work) {
  const kernels::TraceRange range(device, kVerbNames[static_cast<std::size_t>(verb)]);
  const ScopedTimer timer(timers, verb);
  work();
  kernels::synchronize(device);
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Verbs: parts of a training step, timed, and named for profilers and the timeline.
#pragma once

#include <memory>
#include <vector>

#include "core/fault_point.h"
#include "core/timeline.h"
#include "core/timer.h"
#include "kernels/devices.h"
#include "kernels/trace.h"

namespace dragonn::exchange {

/// Returns the track of a verb: the exchange's for what a GradientExchange does.
constexpr Track track_of(StepPart part) {
  const bool computes = part == StepPart::kLoad || part == StepPart::kForward || part == StepPart::kBackward ||
                        part == StepPart::kOptimize;
  return computes ? Track::kComputing : Track::kExchange;
}
constexpr const char* part_name(StepPart part) {
  return kStepPartNames[static_cast<std::size_t>(part)];
}

/// Runs `work`, whose time goes to `verb`. The calls only start work on a GPU, so the part ends by waiting for it:
/// otherwise its time would count at the next wait.
template <class Work>
void run_part(const Device& device, StepTimers& timers, StepPart part, const SpanDetail& detail, Work&& work) {
  const kernels::TraceRange range(device, part_name(part), track_of(part), detail);
  const ScopedTimer timer(timers, part);
  fault_point(part_name(part));
  work();
  kernels::synchronize(device);
}

template <class Work>
void run_part(const Device& device, StepTimers& timers, StepPart part, Work&& work) {
  run_part(device, timers, part, {}, work);
}

/// Times the many verbs of an exchange without a wait for each: a GPU notes by itself when it comes to the beginning
/// and the end of a verb. On the CPU, and by a virtual clock, which advances with the work of its thread, as run_part.
class PartTimes {
 public:
  explicit PartTimes(const Device& device) : device_(device), events_(kernels::make_event_timer(device)) {}

  /// Runs `work`, whose time goes to `verb`: now, or at the next collect().
  template <class Work>
  void run(StepTimers& timers, StepPart part, const SpanDetail& detail, Work&& work) {
    if (events_ == nullptr || timers.clock().is_virtual()) return run_part(device_, timers, part, detail, work);
    const kernels::TraceRange range(device_, part_name(part), track_of(part), detail);
    fault_point(part_name(part));
    events_->mark();
    work();
    events_->mark();
    marked_.push_back(part);
  }

  /// Waits for the device, and adds the times of all verbs since the last call.
  void collect(StepTimers& timers) {
    if (marked_.empty()) return;
    const Span span(Track::kExchange, "wait for device");
    kernels::synchronize(device_);
    for (std::size_t i = 0; i < marked_.size(); ++i) timers.add(marked_[i], events_->seconds(2 * i, 2 * i + 1));
    drop();
  }

  /// Drops the times of verbs that were not collected, because an error ended their step.
  void drop() {
    if (events_ != nullptr) events_->clear();
    marked_.clear();
  }

 private:
  Device device_;
  std::unique_ptr<kernels::EventTimer> events_;  // null on the CPU
  std::vector<StepPart> marked_;                 // two marks each
};

}  // namespace dragonn::exchange

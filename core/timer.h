// SPDX-License-Identifier: MIT
/// Timers of one training step, keyed by the verbs of docs/design.md.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/clock.h"

namespace dragonn {

/// The parts of a step that are timed. Their names in `kStepPartNames` are the keys of `seconds` in metrics.jsonl.
enum class StepPart {
  kLoad,
  kForward,
  kBackward,
  kCompensate,
  kSelect,
  kCompensateSelect,
  kExchange,
  kExchangeHidden,
  kExchangeExposed,
  kDecode,
  kSettle,
  kOptimize
};
inline constexpr std::array kStepPartNames{
    "load",     "forward",         "backward",         "compensate", "select", "compensate_select",
    "exchange", "exchange_hidden", "exchange_exposed", "decode",     "settle", "optimize"};

/// Returns whether a verb's time is contained in other verbs, rather than a part of the step beside them: the time of
/// compensate to settle that ran behind backward (hidden), and the time by which it lengthened the step (exposed).
constexpr bool is_overlap_share(std::string_view part) {
  return part == kStepPartNames[static_cast<std::size_t>(StepPart::kExchangeHidden)] ||
         part == kStepPartNames[static_cast<std::size_t>(StepPart::kExchangeExposed)];
}

/// The seconds spent per verb since the last reset.
class StepTimers {
 public:
  /// Measures wall time.
  StepTimers() : StepTimers(wall_clock()) {}
  /// @param clock outlives the timers.
  explicit StepTimers(const Clock& clock) : clock_(&clock) {}

  const Clock& clock() const { return *clock_; }
  void add(StepPart part, double seconds) { seconds_[static_cast<std::size_t>(part)] += seconds; }
  double seconds(StepPart part) const { return seconds_[static_cast<std::size_t>(part)]; }
  const std::array<double, kStepPartNames.size()>& all() const { return seconds_; }
  void reset() { seconds_.fill(0.0); }

 private:
  const Clock* clock_;
  std::array<double, kStepPartNames.size()> seconds_{};
};

/// Adds the duration of a scope to one verb, measured by the timers' clock.
class ScopedTimer {
 public:
  ScopedTimer(StepTimers& timers, StepPart part) : timers_(timers), part_(part), start_(timers.clock().now()) {}
  ~ScopedTimer() { timers_.add(part_, timers_.clock().now() - start_); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  StepTimers& timers_;
  StepPart part_;
  double start_;
};

}  // namespace dragonn

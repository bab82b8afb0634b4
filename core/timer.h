// SPDX-License-Identifier: MIT
/// Timers of one training step, keyed by the verbs of docs/design.md.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/clock.h"

namespace dragonn {

/// The parts of a step that are timed. Their names in `kVerbNames` are the keys of `seconds` in metrics.jsonl.
enum class Verb {
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
inline constexpr std::array kVerbNames{
    "load",     "forward",         "backward",         "compensate", "select", "compensate_select",
    "exchange", "exchange_hidden", "exchange_exposed", "decode",     "settle", "optimize"};

/// Returns whether a verb's time is contained in other verbs, rather than a part of the step beside them: the time of
/// compensate to settle that ran behind backward (hidden), and the time by which it lengthened the step (exposed).
constexpr bool is_overlap_share(std::string_view verb) {
  return verb == kVerbNames[static_cast<std::size_t>(Verb::kExchangeHidden)] ||
         verb == kVerbNames[static_cast<std::size_t>(Verb::kExchangeExposed)];
}

/// The seconds spent per verb since the last reset.
class StepTimers {
 public:
  /// Measures wall time.
  StepTimers() : StepTimers(wall_clock()) {}
  /// @param clock outlives the timers.
  explicit StepTimers(const Clock& clock) : clock_(&clock) {}

  const Clock& clock() const { return *clock_; }
  void add(Verb verb, double seconds) { seconds_[static_cast<std::size_t>(verb)] += seconds; }
  double seconds(Verb verb) const { return seconds_[static_cast<std::size_t>(verb)]; }
  const std::array<double, kVerbNames.size()>& all() const { return seconds_; }
  void reset() { seconds_.fill(0.0); }

 private:
  const Clock* clock_;
  std::array<double, kVerbNames.size()> seconds_{};
};

/// Adds the duration of a scope to one verb, measured by the timers' clock.
class ScopedTimer {
 public:
  ScopedTimer(StepTimers& timers, Verb verb) : timers_(timers), verb_(verb), start_(timers.clock().now()) {}
  ~ScopedTimer() { timers_.add(verb_, timers_.clock().now() - start_); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  StepTimers& timers_;
  Verb verb_;
  double start_;
};

}  // namespace dragonn

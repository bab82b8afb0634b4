// SPDX-License-Identifier: MIT
/// Timers of one training step, keyed by the verbs of docs/design.md.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace dragonn {

/// The parts of a step that are timed. Names in `kVerbNames` are the keys of `seconds` in metrics.jsonl.
enum class Verb {
  kLoad,
  kForward,
  kBackward,
  kCompensate,
  kSelect,
  kCompensateSelect,
  kExchange,
  kExchangeHidden,
  kDecode,
  kSettle,
  kOptimize
};
inline constexpr std::array kVerbNames{
    "load",     "forward",         "backward", "compensate", "select",  "compensate_select",
    "exchange", "exchange_hidden", "decode",   "settle",     "optimize"};

/// Seconds spent per verb since the last reset.
class StepTimers {
 public:
  void add(Verb verb, double seconds) { seconds_[static_cast<std::size_t>(verb)] += seconds; }
  double seconds(Verb verb) const { return seconds_[static_cast<std::size_t>(verb)]; }
  const std::array<double, kVerbNames.size()>& all() const { return seconds_; }
  void reset() { seconds_.fill(0.0); }

 private:
  std::array<double, kVerbNames.size()> seconds_{};
};

/// Adds the time of a scope to one verb.
class ScopedTimer {
 public:
  ScopedTimer(StepTimers& timers, Verb verb) : timers_(timers), verb_(verb), start_(Clock::now()) {}
  ~ScopedTimer() { timers_.add(verb_, std::chrono::duration<double>(Clock::now() - start_).count()); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  StepTimers& timers_;
  Verb verb_;
  Clock::time_point start_;
};

}  // namespace dragonn

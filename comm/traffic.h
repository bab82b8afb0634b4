// SPDX-License-Identifier: MIT
/// Traffic counters: the bytes and messages that a rank sent and received, by phase.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dragonn::comm {

/// The purpose of a message. kExchange is the gradient exchange's payload, kHeader its counts and flags; kNode is what
/// an exchange in two levels moves inside nodes, payload and counts.
enum class Phase { kControl, kExchange, kHeader, kMetrics, kEvaluation, kCheckpoint, kNode };
inline constexpr std::array kPhaseNames{"control", "exchange", "header", "metrics", "evaluation", "checkpoint", "node"};

struct Traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;

  Traffic& operator+=(const Traffic& other) {
    bytes_sent += other.bytes_sent;
    bytes_received += other.bytes_received;
    messages_sent += other.messages_sent;
    messages_received += other.messages_received;
    return *this;
  }
  friend Traffic operator-(Traffic a, const Traffic& b) {
    a.bytes_sent -= b.bytes_sent;
    a.bytes_received -= b.bytes_received;
    a.messages_sent -= b.messages_sent;
    a.messages_received -= b.messages_received;
    return a;
  }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// Traffic by phase, in the order of kPhaseNames.
using PhaseTraffic = std::array<Traffic, kPhaseNames.size()>;

inline PhaseTraffic operator-(PhaseTraffic a, const PhaseTraffic& b) {
  for (std::size_t phase = 0; phase < a.size(); ++phase) a[phase] = a[phase] - b[phase];
  return a;
}

class TrafficCounters {
 public:
  Phase phase() const { return phase_; }
  const Traffic& operator[](Phase phase) const { return by_phase_[static_cast<std::size_t>(phase)]; }
  const PhaseTraffic& by_phase() const { return by_phase_; }
  void count_sent(std::size_t bytes) {
    current().bytes_sent += bytes;
    ++current().messages_sent;
  }
  void count_received(std::size_t bytes) {
    current().bytes_received += bytes;
    ++current().messages_received;
  }

  /// Adds messages that were not counted one by one.
  void add(const Traffic& traffic) { current() += traffic; }

 private:
  friend class ScopedPhase;
  Traffic& current() { return by_phase_[static_cast<std::size_t>(phase_)]; }

  Phase phase_ = Phase::kControl;
  PhaseTraffic by_phase_{};
};

/// Counts the messages of a scope under one phase.
class ScopedPhase {
 public:
  ScopedPhase(TrafficCounters& counters, Phase phase) : counters_(counters), previous_(counters.phase_) {
    counters_.phase_ = phase;
  }
  ~ScopedPhase() { counters_.phase_ = previous_; }
  ScopedPhase(const ScopedPhase&) = delete;
  ScopedPhase& operator=(const ScopedPhase&) = delete;

 private:
  TrafficCounters& counters_;
  Phase previous_;
};

}  // namespace dragonn::comm

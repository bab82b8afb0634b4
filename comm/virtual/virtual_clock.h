// SPDX-License-Identifier: MIT
/// VirtualClock: a line of virtual time that a thread's own work moves.
#pragma once

#include <array>
#include <cstdint>

#include "core/clock.h"

namespace dragonn::comm {

/// What a worker's own work costs on a virtual cluster. kMeasured: the processor time of the thread that runs the
/// clock, whatever else the machine does meanwhile; that of further threads is not seen. kZero: nothing, so that all
/// times are those of the network and the same in every run.
enum class Compute { kMeasured, kZero };
constexpr auto choices(Compute) {
  return std::array{"measured", "zero"};
}

/// Starts at 0, standing still until a thread takes it over. Reading it costs a system call with kMeasured.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(Compute compute) : compute_(compute) {}

  Moment moment() const override;
  bool is_virtual() const override { return true; }
  void advance_to(Moment moment) override;
  void take_over() override;
  bool paused() const { return paused_; }

  /// Between stop() and go() what the thread does is the simulator's work and costs nothing.
  void stop();
  void go();

 private:
  bool runs() const { return is_taken_ && !stopped_ && !paused_ && compute_ == Compute::kMeasured; }
  bool set_paused(bool paused) override;
  void settle();
  /// Processor time of the calling thread.
  static double thread_seconds();

  Compute compute_;
  bool is_taken_ = false;
  bool stopped_ = false;
  bool paused_ = false;
  Moment reached_;
  double mark_ = 0;  // thread_seconds() when reached_ was true
};

}  // namespace dragonn::comm

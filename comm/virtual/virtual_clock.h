// SPDX-License-Identifier: MIT
/// VirtualClock: virtual time that advances with a thread's own work.
#pragma once

#include <array>
#include <cstdint>

#include "core/clock.h"

namespace dragonn::comm {

/// The virtual cost of a worker's own work. kMeasured: the CPU time of the thread that runs the clock, whatever else
/// the machine does meanwhile; that of other threads is not seen. kZero: nothing, so that all times are those of the
/// network and the same in every run.
enum class Compute { kMeasured, kZero };
constexpr auto choices(Compute) {
  return std::array{"measured", "zero"};
}

/// A virtual clock. It starts at 0 and stands still until a thread takes it over. Reading it costs a system call with
/// kMeasured.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(Compute compute) : compute_(compute) {}

  Moment moment() const override;
  bool is_virtual() const override { return true; }
  void advance_to(Moment moment) override;
  void attach_to_this_thread() override;
  bool paused() const { return paused_; }

  /// Stops the clock, until go(), for the simulator's own work.
  void stop();
  void go();

 private:
  bool runs() const { return is_taken_ && !stopped_ && !paused_ && compute_ == Compute::kMeasured; }
  bool set_paused(bool paused) override;
  void settle();
  /// Returns the CPU time of the calling thread.
  static double thread_seconds();

  Compute compute_;
  bool is_taken_ = false;
  bool stopped_ = false;
  bool paused_ = false;
  Moment reached_;
  double mark_ = 0;  // thread_seconds() when reached_ was true
};

}  // namespace dragonn::comm

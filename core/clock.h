// SPDX-License-Identifier: MIT
/// Clock: the source of times, either wall time or the virtual time of a modelled cluster.
#pragma once

#include <chrono>

namespace dragonn {

/// A point in time, in seconds.
struct Moment {
  double seconds = 0;
  double ideal = 0;  ///< the same point if messages took no time; on a wall clock equal to `seconds`
};

/// A source of times. A virtual clock advances with the work of one thread at a time; only that thread reads and moves
/// it. A wall clock ignores all calls but moment() and now(). Nothing here allocates.
class Clock {
 public:
  Clock() = default;
  virtual ~Clock() = default;

  virtual Moment moment() const = 0;
  /// Returns moment().seconds.
  double now() const { return moment().seconds; }
  virtual bool is_virtual() const { return false; }
  /// Advances the clock to `moment`, unless it is further already: something that its thread waited for came then.
  virtual void advance_to(Moment /*moment*/) {}
  /// Makes the clock advance with the work of the calling thread from now on. The thread's earlier work does not count.
  /// The thread that the clock followed before must be done with it.
  virtual void attach_to_this_thread() {}

 protected:
  Clock(const Clock&) = default;
  Clock& operator=(const Clock&) = default;

 private:
  friend class ClockPause;
  /// Returns whether the clock was paused before.
  virtual bool set_paused(bool /*paused*/) { return false; }
};

/// Wall time in seconds since an origin.
class WallClock final : public Clock {
 public:
  explicit WallClock(std::chrono::steady_clock::time_point origin = std::chrono::steady_clock::now())
      : origin_(origin) {}
  Moment moment() const override {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - origin_).count();
    return {seconds, seconds};
  }

 private:
  std::chrono::steady_clock::time_point origin_;
};

/// Returns the process-wide wall clock, used where no clock is passed.
inline const Clock& wall_clock() {
  static const WallClock clock;
  return clock;
}

/// Stops a virtual clock while this object lives, for work that is not part of the model. A wall clock goes on.
class ClockPause {
 public:
  explicit ClockPause(Clock& clock) : clock_(clock), was_paused_(clock.set_paused(true)) {}
  ~ClockPause() { clock_.set_paused(was_paused_); }
  ClockPause(const ClockPause&) = delete;
  ClockPause& operator=(const ClockPause&) = delete;

 private:
  Clock& clock_;
  bool was_paused_;
};

}  // namespace dragonn

// SPDX-License-Identifier: MIT
/// Clock: where times come from. Wall time, or the virtual time of a modelled cluster.
#pragma once

#include <chrono>

namespace dragonn {

/// A point on a line of time, in seconds.
struct Moment {
  double seconds = 0;
  double ideal = 0;  ///< the same point, had no message taken any time; with a wall clock equal to `seconds`
};

/// A line of time. A virtual one advances with the work of one thread at a time, and is read and moved by that thread
/// alone; for a wall clock, everything but now() does nothing. Nothing here allocates.
class Clock {
 public:
  Clock() = default;
  virtual ~Clock() = default;

  virtual Moment moment() const = 0;
  /// moment().seconds
  double now() const { return moment().seconds; }
  virtual bool is_virtual() const { return false; }
  /// Something that this line waited for was there at `moment`: it goes on from there, if it is not further already.
  virtual void advance_to(Moment /*moment*/) {}
  /// The line goes on with the work of the calling thread. What the thread did before does not count; the thread that
  /// had the line must be done with it.
  virtual void take_over() {}

 protected:
  Clock(const Clock&) = default;
  Clock& operator=(const Clock&) = default;

 private:
  friend class ClockPause;
  /// Returns whether the clock was paused before.
  virtual bool set_paused(bool /*paused*/) { return false; }
};

/// Seconds of wall time since an origin.
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

/// The clock of those who are given none.
inline const Clock& wall_clock() {
  static const WallClock clock;
  return clock;
}

/// A virtual clock stands still while this lives: for work that is not part of what is modelled. A wall clock goes on.
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

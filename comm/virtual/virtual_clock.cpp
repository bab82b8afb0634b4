// SPDX-License-Identifier: MIT
#include "comm/virtual/virtual_clock.h"

#include <algorithm>
#include <time.h>

#include "core/error.h"

namespace dragonn::comm {

double VirtualClock::thread_seconds() {
  timespec time{};
  DRAGONN_CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0,
                "this system has no clock of a thread's CPU time");
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Moment VirtualClock::moment() const {
  if (!runs()) return reached_;
  const double work = thread_seconds() - mark_;
  return {reached_.seconds + work, reached_.ideal + work};
}

void VirtualClock::settle() {
  if (!runs()) return;
  const double seconds = thread_seconds();
  const double work = seconds - mark_;
  reached_ = {reached_.seconds + work, reached_.ideal + work};
  mark_ = seconds;
}

void VirtualClock::advance_to(Moment moment) {
  settle();
  reached_ = {std::max(reached_.seconds, moment.seconds), std::max(reached_.ideal, moment.ideal)};
}

void VirtualClock::attach_to_this_thread() {
  is_taken_ = true;
  if (runs()) mark_ = thread_seconds();
}

void VirtualClock::stop() {
  settle();
  stopped_ = true;
}

void VirtualClock::go() {
  stopped_ = false;
  if (runs()) mark_ = thread_seconds();
}

bool VirtualClock::set_paused(bool paused) {
  const bool before = paused_;
  settle();
  paused_ = paused;
  if (runs()) mark_ = thread_seconds();
  return before;
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// EventTimer: times of a thread's work on a device, taken by the device itself.
#pragma once

#include <cstddef>
#include <memory>

#include "core/device.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// Notes the times at which a device comes to marked places in a thread's work. Nobody waits at a mark: a mark after
/// work that the host did itself, while the device had nothing to do, has the host's time.
class EventTimer {
 public:
  EventTimer() = default;
  virtual ~EventTimer() = default;
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  /// Marks this place in the calling thread's work on the device. It costs the host about a microsecond.
  virtual void mark() = 0;
  /// Returns the seconds from one mark to another; marks count from 0. The thread must have waited since the marks
  /// were made. @throws DeviceError if the device has not come to them.
  virtual double seconds(std::size_t first, std::size_t second) const = 0;
  /// Forgets all marks.
  virtual void clear() = 0;
};

/// Makes a timer; null for the CPU, whose work is done when a call returns.
extern Operation<std::unique_ptr<EventTimer>(const Device&)> make_event_timer;

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
/// Device timer: seconds of a piece of work on a device.
#pragma once

#include "bench/timing.h"
#include "core/device.h"
#include "kernels/device_table.h"

namespace dragonn::bench {

/// A call that owns nothing.
struct Work {
  void (*call)(const void* body) = nullptr;
  const void* body = nullptr;
};

/// Runs the work and returns the seconds that passed on the device's own clock, from an idle device to an idle device.
using TimerTable = kernels::DeviceTable<double (*)(const Device& device, const Work& work)>;
TimerTable& timer_table();

template <class Body>
double seconds_on(const Device& device, const Body& body) {
  const auto call = [](const void* erased) { (*static_cast<const Body*>(erased))(); };
  return timer_table().at(device)(device, {call, &body});
}

}  // namespace dragonn::bench

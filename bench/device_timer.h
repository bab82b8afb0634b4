// SPDX-License-Identifier: MIT
/// Seconds of a piece of work, on this thread or on a device.
#pragma once

#include <chrono>

#include "core/device.h"
#include "kernels/operation.h"

namespace dragonn::bench {

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A call that owns nothing.
struct Work {
  void (*call)(const void* body) = nullptr;
  const void* body = nullptr;
};

/// Runs the work and returns the seconds that passed on the device's own clock, from an idle device to an idle device.
extern kernels::Operation<double(const Device& device, const Work& work)> time_work;

template <class Body>
double seconds_on(const Device& device, const Body& body) {
  const auto call = [](const void* erased) { (*static_cast<const Body*>(erased))(); };
  return time_work(device, {call, &body});
}

}  // namespace dragonn::bench

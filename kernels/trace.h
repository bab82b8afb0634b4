// SPDX-License-Identifier: MIT
/// Traces of a device's work: ranges that a profiler and the run's timeline show, and times that the device takes
/// itself.
#pragma once

#include <cstddef>
#include <memory>

#include "core/device.h"
#include "core/timeline.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// The functions that notify a profiler of a device's work. A GPU's kernels add theirs; the CPU has none unless a
/// profiler adds some. Both are set, or neither.
struct TraceFunctions {
  void (*begin)(const char* name) noexcept = nullptr;
  void (*end)() noexcept = nullptr;
};

/// Replaces the functions, while no range is open. Returns those from before.
TraceFunctions register_trace(DeviceType type, TraceFunctions functions);
const TraceFunctions& trace_functions(DeviceType type);

/// A named range of a thread's work, and a span of its timeline. Ranges of a thread nest. Where nobody listens this is
/// two comparisons; on a GPU it is an NVTX range, which costs some nanoseconds if no profiler listens.
class TraceRange {
 public:
  /// @param name outlives the thread's timeline, if it has one.
  TraceRange(const Device& device, const char* name, Track track = Track::kComputing, const SpanDetail& detail = {})
      : span_(track, name, detail), functions_(trace_functions(device.type)) {
    if (functions_.begin != nullptr) functions_.begin(name);
  }
  ~TraceRange() {
    if (functions_.end != nullptr) functions_.end();
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  Span span_;
  TraceFunctions functions_;
};

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

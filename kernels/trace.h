// SPDX-License-Identifier: MIT
/// TraceRange: names a part of a thread's work for a profiler, and for the run's own timeline.
#pragma once

#include "core/device.h"
#include "core/timeline.h"

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

}  // namespace dragonn::kernels

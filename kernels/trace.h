// SPDX-License-Identifier: MIT
/// TraceRange: names a part of a thread's work for a device's profiler.
#pragma once

#include "core/device.h"

namespace dragonn::kernels {

/// The functions that notify a device's profiler. The CPU has none; a device's kernels add theirs.
struct TraceFunctions {
  void (*begin)(const char* name) noexcept = nullptr;
  void (*end)() noexcept = nullptr;
};

void register_trace(DeviceType type, TraceFunctions functions);
const TraceFunctions& trace_functions(DeviceType type);

/// A named range of a thread's work. Ranges of a thread nest. On the CPU this is one comparison; on a GPU an NVTX
/// range, which costs some nanoseconds if no profiler listens.
class TraceRange {
 public:
  /// @param name is read in the constructor only.
  TraceRange(const Device& device, const char* name) : type_(device.type) {
    if (!device.is_cpu()) trace_functions(type_).begin(name);
  }
  ~TraceRange() {
    if (type_ != DeviceType::kCpu) trace_functions(type_).end();
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  DeviceType type_;
};

}  // namespace dragonn::kernels

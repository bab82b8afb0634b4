// SPDX-License-Identifier: MIT
/// What the machine does with the bytes alone: plain loops over the buffers that a benchmark works on.
#pragma once

#include <span>

#include "core/view.h"

namespace dragonn::bench {

/// Reads 4 bytes per element, on all OpenMP threads. Returns the sum, so that nothing is optimized away.
float read_all(std::span<const float> values);
inline constexpr double kReadBytes = 4;

/// sums += values: 12 bytes per element, which is what accumulating a gradient costs.
void add_all(std::span<const float> values, std::span<float> sums);
inline constexpr double kAddBytes = 12;

/// target = values: reads and writes, 8 bytes per element.
void copy_all(std::span<const float> values, std::span<float> target);
inline constexpr double kCopyBytes = 8;

/// Seconds in which a device copies `values` to `target`, in its own memory.
double copy_seconds(const Device& device, View<const float> values, View<float> target);
/// Seconds in which a device reads 4 bytes per element of `values`. A GPU's is half of those in which it copies them to
/// `room`, the rate that its makers and others measure by.
double read_seconds(const Device& device, View<const float> values, View<float> room);
/// Seconds in which it adds `values` to `sums`: plain loops.
double add_seconds(const Device& device, View<const float> values, View<float> sums);

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// Bandwidth: the rates of plain loops over the buffers that a benchmark works on.
#pragma once

#include <span>

#include "core/view.h"

namespace dragonn::bench {

/// Reads 4 bytes per element, on all OpenMP threads. Returns the sum, so that nothing is optimized away.
float read_all(std::span<const float> values);
inline constexpr double kReadBytes = 4;

/// Adds: sums += values. It moves 12 bytes per element, as accumulating a gradient does.
void add_all(std::span<const float> values, std::span<float> sums);
inline constexpr double kAddBytes = 12;

/// Copies: target = values. It reads and writes 8 bytes per element.
void copy_all(std::span<const float> values, std::span<float> target);
inline constexpr double kCopyBytes = 8;

/// Returns the seconds in which a device copies `values` to `target`, in its own memory.
double copy_seconds(const Device& device, View<const float> values, View<float> target);
/// Returns the seconds in which a device reads 4 bytes per element of `values`. A GPU's are taken as half the time of
/// copying them to `scratch`, the rate that its makers and others measure.
double read_seconds(const Device& device, View<const float> values, View<float> scratch);
/// Returns the seconds in which a device adds `values` to `sums`, by plain loops.
double add_seconds(const Device& device, View<const float> values, View<float> sums);

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// What the machine does with the bytes alone: plain loops over the buffers that a benchmark works on.
#pragma once

#include <span>

namespace dragonn::bench {

/// Reads 4 bytes per element, on all OpenMP threads. Returns the sum, so that nothing is optimized away.
float read_all(std::span<const float> values);

/// sums += values: 12 bytes per element, which is what accumulating a gradient costs.
void add_all(std::span<const float> values, std::span<float> sums);
inline constexpr double kAddBytes = 12;

}  // namespace dragonn::bench

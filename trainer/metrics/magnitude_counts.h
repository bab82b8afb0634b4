// SPDX-License-Identifier: MIT
/// MagnitudeCounts: a histogram of |x| over many orders of magnitude.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/metrics/event_file.h"

namespace dragonn::trainer {

/// Counts values by the power of two below their magnitude: the exponent of a float32.
class MagnitudeCounts {
 public:
  /// Adds float32 values in host memory. O(n); local.
  void add(std::span<const float> values);
  /// The counts by biased exponent: 0 has zeros and denormal numbers, 255 infinities and NaN. To be summed over ranks.
  std::span<std::uint64_t> counts() { return counts_; }
  /// Returns a bar for each power of two from the smallest magnitude to the largest, over the decimal logarithm of the
  /// magnitude; empty if there is none. Zeros and values that are not finite are left out.
  std::vector<HistogramBar> bars_of_logarithms() const;

 private:
  static constexpr std::size_t kExponents = 256;

  std::array<std::uint64_t, kExponents> counts_{};
};

}  // namespace dragonn::trainer

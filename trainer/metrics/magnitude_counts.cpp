// SPDX-License-Identifier: MIT
#include "trainer/metrics/magnitude_counts.h"

#include <bit>
#include <numbers>

namespace dragonn::trainer {
namespace {

/// Returns the decimal logarithm of the smallest number with this biased exponent.
double logarithm(std::size_t exponent) {
  return (static_cast<double>(exponent) - 127) * std::numbers::ln2 / std::numbers::ln10;
}

}  // namespace

void MagnitudeCounts::add(std::span<const float> values) {
  for (const float value : values) ++counts_[std::bit_cast<std::uint32_t>(value) >> 23 & 0xFF];
}

std::vector<HistogramBar> MagnitudeCounts::bars_of_logarithms() const {
  std::size_t first = 1, end = kExponents - 1;
  while (first < end && counts_[first] == 0) ++first;
  while (end > first && counts_[end - 1] == 0) --end;
  std::vector<HistogramBar> bars;
  for (std::size_t exponent = first; exponent < end; ++exponent) {
    bars.push_back({logarithm(exponent), logarithm(exponent + 1), static_cast<double>(counts_[exponent])});
  }
  return bars;
}

}  // namespace dragonn::trainer

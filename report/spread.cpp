// SPDX-License-Identifier: MIT
#include "report/spread.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dragonn::report {
namespace {

double squared_distances(std::span<const std::optional<double>> values, double mean) {
  double sum = 0;
  for (const std::optional<double>& value : values) {
    if (value) sum += (*value - mean) * (*value - mean);
  }
  return sum;
}

}  // namespace

double student_t_975(std::size_t freedom) {
  static constexpr std::array<double, 9> kTable{12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
                                                2.4469,  2.3646, 2.3060, 2.2622};
  if (freedom <= kTable.size()) return kTable[std::max<std::size_t>(freedom, 1) - 1];
  // The Cornish-Fisher expansion in 1 / freedom: right to four digits from 10 degrees on.
  const double z = 1.959964, n = static_cast<double>(freedom);
  return z + (std::pow(z, 3) + z) / (4 * n) + (5 * std::pow(z, 5) + 16 * std::pow(z, 3) + 3 * z) / (96 * n * n) +
         (3 * std::pow(z, 7) + 19 * std::pow(z, 5) + 17 * std::pow(z, 3) - 15 * z) / (384 * n * n * n);
}

std::optional<Spread> spread(std::span<const std::optional<double>> values) {
  Spread result;
  for (const std::optional<double>& value : values) {
    if (!value) continue;
    result.low = result.count == 0 ? *value : std::min(result.low, *value);
    result.high = result.count == 0 ? *value : std::max(result.high, *value);
    result.mean += *value;
    ++result.count;
  }
  if (result.count == 0) return std::nullopt;
  const double count = static_cast<double>(result.count);
  result.mean /= count;
  if (result.count >= kMinimumForInterval) {
    const double deviation = std::sqrt(squared_distances(values, result.mean) / (count - 1));
    result.ci95 = student_t_975(result.count - 1) * deviation / std::sqrt(count);
  }
  return result;
}

}  // namespace dragonn::report

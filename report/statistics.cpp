// SPDX-License-Identifier: MIT
#include "report/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace dragonn::report {
namespace {

double squared_distances(std::span<const std::optional<double>> values, double mean) {
  double sum = 0;
  for (const std::optional<double>& value : values) {
    if (value) sum += (*value - mean) * (*value - mean);
  }
  return sum;
}

/// Returns the value below which `share` of the ascending values lie.
double percentile(const std::vector<double>& ascending, double share) {
  const double place = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return std::lerp(ascending[below], ascending[above], place - static_cast<double>(below));
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

std::optional<Estimation> estimation(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  Estimation result;
  result.steps = values.size();
  const double count = static_cast<double>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (double value : values) squares += (value - result.mean) * (value - result.mean);
  const double deviation = values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0.0;
  const double half_width = kNormal95 * deviation / std::sqrt(count);
  result.ci_low = result.mean - half_width;
  result.ci_high = result.mean + half_width;
  result.p5 = percentile(values, 0.05);
  result.p95 = percentile(values, 0.95);
  return result;
}

std::optional<Estimation> estimation(std::span<const Run> runs) {
  std::vector<double> values;
  for (const Run& run : runs) {
    for (const StepPoint& point : run.steps) {
      if (point.selected_over_k) values.push_back(*point.selected_over_k);
    }
  }
  return estimation(std::move(values));
}

}  // namespace dragonn::report

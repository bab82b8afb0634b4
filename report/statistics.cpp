// SPDX-License-Identifier: MIT
#include "report/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace dragonn::report {
namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Returns the standard deviation of a sample (divisor: values - 1); 0 for one value.
double deviation(const std::vector<double>& values, double mean) {
  double squares = 0;
  for (double value : values) squares += (value - mean) * (value - mean);
  return values.size() > 1 ? std::sqrt(squares / static_cast<double>(values.size() - 1)) : 0.0;
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

std::optional<Spread> spread(std::span<const std::optional<double>> all) {
  std::vector<double> values;
  for (const std::optional<double>& value : all) {
    if (value) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  const auto [low, high] = std::ranges::minmax(values);
  const std::size_t count = values.size();
  Spread result{mean_of(values), low, high, count, {}};
  if (count >= kMinimumForInterval) {
    result.ci95 = student_t_975(count - 1) * deviation(values, result.mean) / std::sqrt(static_cast<double>(count));
  }
  return result;
}

std::optional<Estimation> estimation(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const double mean = mean_of(values);
  const double half_width = kNormal95 * deviation(values, mean) / std::sqrt(static_cast<double>(values.size()));
  return Estimation{.steps = values.size(),
                    .mean = mean,
                    .ci_low = mean - half_width,
                    .ci_high = mean + half_width,
                    .p5 = percentile(values, 0.05),
                    .p95 = percentile(values, 0.95)};
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

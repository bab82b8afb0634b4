// SPDX-License-Identifier: MIT
#include "report/estimation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dragonn::report {
namespace {

/// Returns the value below which `share` of the ascending values lie.
double percentile(const std::vector<double>& ascending, double share) {
  const double place = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return std::lerp(ascending[below], ascending[above], place - static_cast<double>(below));
}

}  // namespace

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

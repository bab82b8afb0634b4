// SPDX-License-Identifier: MIT
/// Estimation: the ratio of the number of selected entries to the requested k.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "report/compare.h"

namespace dragonn::report {

/// Statistics of selected / k over steps. Source: SIDCo (MLSys 2021), section 4, "estimation quality". The paper does
/// not say whether its bars are the mean's confidence interval or percentiles, so both are here.
struct Estimation {
  std::size_t steps = 0;
  double mean = 0;
  double ci_low = 0, ci_high = 0;  ///< 90 % confidence interval of the mean: mean -+ 1.645 s / sqrt(steps)
  double p5 = 0, p95 = 0;          ///< percentiles over the steps, interpolated linearly
};

/// The standard normal's 95th percentile: 90 % lie within this many standard deviations.
inline constexpr double kNormal95 = 1.645;

/// Computes the statistics; absent without values. The standard deviation s is that of a sample (divisor steps - 1),
/// and 0 for one value.
std::optional<Estimation> estimation(std::vector<double> values);
/// Computes the statistics over all step lines of the runs that have the number.
std::optional<Estimation> estimation(std::span<const Run> runs);

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// Estimation: how close sparsifiers came to the number of entries that they were asked for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "report/compare.h"

namespace dragonn::report {

/// Statistics of selected / k over steps. Source: SIDCo (MLSys 2021), section 4, "estimation quality"; as the paper
/// does not say whether its bars are the mean's confidence interval or percentiles, both are here.
struct Estimation {
  std::size_t steps = 0;
  double mean = 0;
  double ci_low = 0, ci_high = 0;  ///< 90 % confidence interval of the mean: mean -+ 1.645 s / sqrt(steps)
  double p5 = 0, p95 = 0;          ///< percentiles of the steps, between neighbours in equal parts
};

/// The standard normal's 95th percentile: 90 % lie within this many standard deviations.
inline constexpr double kNormal95 = 1.645;

/// Absent without values. The standard deviation s is that of a sample (divisor steps - 1); 0 with one value.
std::optional<Estimation> estimation(std::vector<double> values);
/// Of all step lines of the runs that have the number.
std::optional<Estimation> estimation(std::span<const Run> runs);

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// Statistics: of a number over repeated runs, and of how close sparsifiers came to the number of entries that they
/// were asked for.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "report/run.h"

namespace dragonn::report {

/// Mean and extremes over the runs of a group that have the number.
struct Spread {
  double mean = 0, low = 0, high = 0;
  std::size_t count = 0;
  std::optional<double> ci95;  ///< half the width of the mean's 95 % confidence interval; from kMinimumForInterval on
};

/// The smallest number of runs for an interval: with two it would be 12.7 standard errors wide.
inline constexpr std::size_t kMinimumForInterval = 3;

std::optional<Spread> spread(std::span<const std::optional<double>> values);

/// Returns the spread of one number of the items: a member, or a function of an item.
template <class Items, class Number>
std::optional<Spread> spread_of(const Items& items, Number number) {
  std::vector<std::optional<double>> values;
  for (const auto& item : items) values.push_back(std::invoke(number, item));
  return spread(values);
}

/// Returns one number of a struct that may be absent.
template <class Struct>
std::optional<double> field(const std::optional<Struct>& numbers, double Struct::*number) {
  return numbers ? std::optional((*numbers).*number) : std::nullopt;
}

/// Returns the 97.5th percentile of Student's t distribution: 95 % lie within this many standard errors.
/// @param freedom degrees of freedom, at least 1.
double student_t_975(std::size_t freedom);

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

// SPDX-License-Identifier: MIT
/// Spread: mean, range and confidence interval of a number over repeated runs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace dragonn::report {

/// Mean and extremes over the runs of a group that have the number.
struct Spread {
  double mean = 0, low = 0, high = 0;
  std::size_t count = 0;
  std::optional<double> ci95;  ///< half the mean's 95 % confidence interval, from kMinimumForInterval runs on
};

/// The smallest number of runs for an interval: with two it would be 12.7 standard errors wide.
inline constexpr std::size_t kMinimumForInterval = 3;

std::optional<Spread> spread(std::span<const std::optional<double>> values);

/// Returns the 97.5th percentile of Student's t distribution: 95 % lie within this many standard errors.
/// @param freedom degrees of freedom, at least 1.
double student_t_975(std::size_t freedom);

}  // namespace dragonn::report

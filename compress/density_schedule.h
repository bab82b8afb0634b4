// SPDX-License-Identifier: MIT
/// Density schedules: the share of entries that is exchanged, step by step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/registry.h"

namespace dragonn::compress {

/// The position of the training, and the density at which the schedule ends.
struct DensityPoint {
  double density = 1.0;     ///< target of the run, in (0, 1]
  std::size_t epoch = 0;    ///< from 0
  std::uint64_t step = 0;   ///< from 0, over the whole run
  std::uint64_t steps = 0;  ///< of the whole run; 0: not known
  double rate_share = 1.0;  ///< of the base learning rate; 1 while it warms up
};

/// Settings of the schedule "rate".
inline constexpr const char* kRateDensities = "densities";
inline constexpr const char* kBytesShare = "bytes_share";  ///< 0: the densities are as they are set

struct DensityScheduleEntry : RegistryEntry {
  static constexpr const char* kKind = "density schedule";
  /// Returns the density of a step before it is clamped; see density_at.
  std::function<double(const Settings&, const DensityPoint&)> at;
  bool needs_length = false;  ///< DensityPoint::steps must be known
  bool by_rate = false;       ///< the density depends on nothing but DensityPoint::rate_share
};

/// Returns the density of one step by the schedule `name`, never below `point.density` and never above 1. A pure
/// function. @throws ConfigError for an unknown name or a point.density that is not in (0, 1].
double density_at(const std::string& name, const Settings& settings, const DensityPoint& point);

}  // namespace dragonn::compress

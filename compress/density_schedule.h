// SPDX-License-Identifier: MIT
/// Density schedules: how many entries are exchanged as training goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/registry.h"

namespace dragonn::compress {

/// Where training stands, and the density that the schedule ends at.
struct DensityPoint {
  double density = 1.0;    ///< target of the run, in (0, 1]
  std::size_t epoch = 0;   ///< from 0
  std::uint64_t step = 0;  ///< from 0, over the whole run
};

struct DensityScheduleEntry : RegistryEntry {
  static constexpr const char* kKind = "density schedule";
  /// The density of a step before it is clamped; see density_at.
  std::function<double(const Settings&, const DensityPoint&)> at;
};

/// The density of one step by the schedule `name`, never below `point.density` and never above 1. A pure function.
/// @throws ConfigError for an unknown name or a point.density that is not in (0, 1].
double density_at(const std::string& name, const Settings& settings, const DensityPoint& point);

}  // namespace dragonn::compress

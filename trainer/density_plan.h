// SPDX-License-Identifier: MIT
/// Density plan: the densities of a run, step by step.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/config/config.h"

namespace dragonn::trainer {

/// Returns the target density of a step in an epoch, both counted from 0; 1 if nothing is selected.
double density_at(const CompressionConfig& compression, std::uint64_t epoch, std::uint64_t step);
/// Returns that of a run whose epochs all have as many steps.
double density_of_step(const CompressionConfig& compression, std::uint64_t step, std::uint64_t steps_per_epoch);

/// Returns the different densities below 1 of the first `steps` steps, in the order in which they come. O(steps).
std::vector<double> sparse_densities(const CompressionConfig& compression, std::uint64_t steps,
                                     std::uint64_t steps_per_epoch);

}  // namespace dragonn::trainer

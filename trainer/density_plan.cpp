// SPDX-License-Identifier: MIT
#include "trainer/density_plan.h"

#include <algorithm>

#include "compress/density_schedule.h"

namespace dragonn::trainer {

double density_at(const CompressionConfig& compression, std::uint64_t epoch, std::uint64_t step) {
  if (!compression.selects()) return 1.0;
  return compress::density_at(compression.density_schedule.name, compression.density_schedule.settings,
                              {.density = compression.density, .epoch = static_cast<std::size_t>(epoch), .step = step});
}

double density_of_step(const CompressionConfig& compression, std::uint64_t step, std::uint64_t steps_per_epoch) {
  return density_at(compression, step / steps_per_epoch, step);
}

std::vector<double> sparse_densities(const CompressionConfig& compression, std::uint64_t steps,
                                     std::uint64_t steps_per_epoch) {
  std::vector<double> densities;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const double density = density_of_step(compression, step, steps_per_epoch);
    const bool known = !densities.empty() && densities.back() == density;
    if (density < 1 && !known && !std::ranges::count(densities, density)) densities.push_back(density);
  }
  return densities;
}

}  // namespace dragonn::trainer

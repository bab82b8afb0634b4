// SPDX-License-Identifier: MIT
/// Byte budget: the densities of a run whose schedule goes by the learning rate, and the one with which it begins, so
/// that the whole run sends so many bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/nodes.h"
#include "layers/network.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// The budget of a run (compression.rate.bytes_share), and how it is spent.
struct ByteBudget {
  double first_density = 1;  ///< while the learning rate is high
  double bytes = 0;          ///< that a worker sends in an exchange, mean over the run, as predicted
  double dense_bytes = 0;    ///< that it would send in one without compression
};

/// Local. Returns the budget of a config that has one, for workers on these nodes: the first density, at most 0.99,
/// with which the run spends it, rounded down to three digits; the target if the other densities cost more. A run that
/// is cut short (train.max_steps) spends the budget of its own steps; a rate that falls by what evaluations say, no
/// more than it. O(steps).
/// @param network made for the config; it needs no memory yet.
std::optional<ByteBudget> byte_budget(const RunSpec& config, const layers::Network& network,
                                      std::uint64_t steps_per_epoch, const comm::Nodes& nodes);

/// Checks that a run keeps to its budget. @throws ConfigError if not: it says what the run costs.
void check(const ByteBudget& budget, const Config& config);

/// Returns "compression.rate.bytes_share = 0.1: density 0.61 while the learning rate is high, 138 kB sent per worker
/// and step over the whole run (dense: 1.62 MB)".
std::string describe(const ByteBudget& budget, const Config& config);

/// Sets the first density of a config's schedule to that of its budget.
void apply(const ByteBudget& budget, RunSpec& config);

/// A density, and the share of a run's exchanges that have it.
struct DensityShare {
  double density = 1;
  double share = 1;
};

/// Returns the densities of a run's exchanges: of a schedule by the learning rate all, the densest first, of another
/// one the target alone, as what comes before it ends with the first epochs. O(steps).
std::vector<DensityShare> density_shares(const RunSpec& config, std::uint64_t steps_per_epoch);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Exchange config: the keys of a config that decide how gradients are exchanged, with or without a training run.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// Throws the formatted ConfigError unless the parts fit.
template <class... Args>
void require(bool fits, fmt::format_string<Args...> otherwise, Args&&... args) {
  if (!fits) throw ConfigError(fmt::format(otherwise, std::forward<Args>(args)...));
}

/// Returns the rules of a resolved config.
exchange::ExchangeRules exchange_rules(const Config& config);

/// Returns the rules of a config for workers on these nodes: with two levels if comm.hierarchy says so.
exchange::ExchangeRules rules_on(const RunSpec& config, const comm::Nodes& nodes);

/// Checks what moves between GPUs without the host, and how workers connect. @throws ConfigError naming the keys.
void check_comm(const Config& config);

/// Checks that the parts of the exchange fit together and the optimizer. @throws ConfigError naming the keys that do
/// not, and what would.
void check_exchange(const Config& config, const exchange::ExchangeRules& rules);

/// Returns the target density of an exchange in an epoch, both counted from 0; 1 if nothing is selected. Schedules by
/// steps count exchanges. @param exchanges of the whole run; 0: not known, so that a schedule's last part does not
/// come. @param rate_share the share of the base learning rate that its decay has left.
double density_at(const CompressionConfig& compression, std::uint64_t epoch, std::uint64_t exchange,
                  std::uint64_t exchanges, double rate_share);

/// Returns the different densities below 1 of the first `steps` steps, in the order in which they come, or of a
/// schedule by the learning rate all that it has. O(steps).
std::vector<double> sparse_densities(const CompressionConfig& compression, std::uint64_t steps,
                                     std::uint64_t steps_per_epoch, std::uint64_t steps_per_exchange = 1);

/// Returns whether the densities of a run go by its learning rate, up to the end.
bool is_by_rate(const CompressionConfig& compression);

/// Returns whether the density decides how much is selected: not with a threshold that is given.
bool density_decides(const CompressionConfig& compression);

/// Returns the share of dense training's bytes that the whole run may send (compression.rate.bytes_share); 0: no
/// budget.
double bytes_share(const CompressionConfig& compression);

/// Parses the config of an exchange whose model, data and optimizer steps are another program's: `seed`, [optimizer]
/// for the momentum that a memory may own, [compression], [comm] and the keys logging.trace*; with local steps also
/// [update]. The model and the data set of the result have no name.
/// @param name stands for the file in errors.
/// @throws ConfigError, as load_config; also for every other key, and for values that need a training run
/// (compression.overlap, select_tensors = "cost_model", backend = "nccl").
RunSpec parse_exchange_config(const std::string& text, const std::string& name);

}  // namespace dragonn::trainer

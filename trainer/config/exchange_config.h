// SPDX-License-Identifier: MIT
/// Exchange config: the keys of a config that decide how gradients are exchanged, with or without a training run.
#pragma once

#include <string>

#include "trainer/config/config.h"

namespace dragonn::trainer {

/// Returns the rules of a resolved config.
exchange::ExchangeRules exchange_rules(const Config& config);

/// Checks what moves between GPUs without the host, and how workers connect. @throws ConfigError naming the keys.
void check_comm(const Config& config);

/// Checks that the parts of the exchange fit together and the optimizer. @throws ConfigError naming the keys that do
/// not, and what would.
void check_exchange(const Config& config, const exchange::ExchangeRules& rules);

/// Parses the config of an exchange whose model, data and optimizer steps are another program's: `seed`, [optimizer]
/// for the momentum that a memory may own, [compression] and [comm]. The model and the data set of the result have no
/// name.
/// @param name stands for the file in errors.
/// @throws ConfigError, as load_config; also for every other key, and for values that need a training run
/// (compression.overlap, select_tensors = "cost_model", backend = "nccl").
RunSpec parse_exchange_config(const std::string& text, const std::string& name);

}  // namespace dragonn::trainer

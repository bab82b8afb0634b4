// SPDX-License-Identifier: MIT
/// Assemble: from a resolved config to the objects of a run.
#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"
#include "layers/network.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "trainer/config/config.h"
#include "trainer/exchange/gradient_exchange.h"

namespace dragonn::trainer {

/// Reads both splits. @throws ConfigError (missing path), DataError.
data::DatasetSplits load_data(const Config& config);
/// A network without memory yet. @throws ConfigError if the model does not fit the data.
layers::Network make_network(const Config& config, const data::Dataset& data, Device device = {});
layers::Network make_network(const Config& config, const Shape& sample_shape, int classes, Device device = {});
std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config, ParameterArena& arena);
std::unique_ptr<optim::Schedule> make_schedule(const Config& config, const optim::ScheduleContext& context);
/// How gradients travel under this config.
ExchangeRules exchange_rules(const Config& config);

}  // namespace dragonn::trainer

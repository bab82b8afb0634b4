// SPDX-License-Identifier: MIT
/// Assemble: from a resolved config to the rules (RunSpec) and the objects of a run.
#pragma once

#include "data/dataset.h"
#include "layers/network.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// Reads both splits. @throws ConfigError (missing path), DataError.
data::DatasetSplits load_data(const Config& config);
/// Returns a network without memory yet. @throws ConfigError if the model does not fit the data.
layers::Network make_network(const Config& config, const data::Dataset& data, Device device = {});
layers::Network make_network(const Config& config, const Shape& sample_shape, int classes, Device device = {});

/// Returns the network of a config. Reads the data only if its samples or classes are not known without it.
layers::Network make_network(const Config& config, Device device = {});

}  // namespace dragonn::trainer

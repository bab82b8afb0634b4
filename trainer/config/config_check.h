// SPDX-License-Identifier: MIT
/// Checks of a resolved config that concern more than one key, before any data is touched.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace dragonn::trainer {

/// Whether the optimizer has momentum and it is not 0.
bool has_momentum(const Config& config);

/// @throws ConfigError naming the keys that do not fit together, and what would.
void check_config(const Config& config);

/// What is valid in a checked config and most likely not meant, one sentence each.
std::vector<std::string> config_warnings(const Config& config);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Resolve: from the keys of a file to a typed config, whose parts are not checked against each other yet.
#pragma once

#include <span>
#include <string>

#include "trainer/config/config.h"
#include "trainer/config/toml_config.h"

namespace dragonn::trainer {

/// Applies `overrides`, fills in defaults, resolves the method, and checks each key. @param complete required keys must
/// be there; otherwise a model or data set without a name stays without settings. @throws ConfigError, as load_config.
Config resolve_config(RawConfig raw, std::span<const std::string> overrides, bool complete);

}  // namespace dragonn::trainer

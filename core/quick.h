// SPDX-License-Identifier: MIT
/// Quick runs: an environment variable shortens training runs and benchmarks, to try out a command.
#pragma once

#include <cstdint>
#include <optional>

namespace dragonn {

/// Returns the N of DRAGONN_QUICK=N: a training run ends after N steps, a benchmark takes N rounds over small sizes.
/// Returns nothing if the variable is not set, or empty. @throws ConfigError if it is no whole number from 1 on.
std::optional<std::int64_t> quick_limit();

}  // namespace dragonn

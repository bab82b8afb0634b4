// SPDX-License-Identifier: MIT
/// Quick runs: the environment shortens what a program does, to try a command without its cost.
#pragma once

#include <cstdint>
#include <optional>

namespace dragonn {

/// The N of DRAGONN_QUICK=N: a training run ends after N steps, a benchmark takes N rounds over small sizes. Nothing if
/// the variable is not set, or empty. @throws ConfigError if it is no whole number from 1 on.
std::optional<std::int64_t> quick_limit();

}  // namespace dragonn

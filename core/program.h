// SPDX-License-Identifier: MIT
/// The program: its version, and whether it only tries out a command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dragonn {

/// Returns `git describe` of the sources ("v0.1.0-12-gabcdef0", with "-dirty" for changed files), or the project's
/// version ("0.1.0") if the sources came without a repository. summary.json records it.
std::string_view version();
/// Returns what a program prints for `--version`: its name, the version, and whether the build has fault points.
std::string version_line(std::string_view program);

/// Returns the N of DRAGONN_QUICK=N: a training run ends after N steps, a benchmark takes N rounds over small sizes.
/// Returns nothing if the variable is not set, or empty. @throws ConfigError if it is no whole number from 1 on.
std::optional<std::int64_t> quick_limit();

}  // namespace dragonn

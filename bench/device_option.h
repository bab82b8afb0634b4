// SPDX-License-Identifier: MIT
/// `--device`: the device that a benchmark runs on.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "core/device.h"

namespace dragonn::bench {

/// Adds `--device cpu|cuda` to a subcommand; `name` holds the default.
void add_device_option(CLI::App& command, std::string& name);
/// Returns the device with that name, the first one of several GPUs. @throws ConfigError with the reason if there is
/// none.
Device device_of(const std::string& name);

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// Options that several benchmarks have: where they run, and the settings of the methods that they measure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/device.h"
#include "core/registry.h"
#include "core/settings.h"

namespace dragonn::bench {

/// Adds `--device cpu|cuda` to a subcommand; `name` holds the default.
void add_device_option(CLI::App& command, std::string& name);
/// Returns the device with that name, the first one of several GPUs. @throws ConfigError with the reason if there is
/// none.
Device device_of(const std::string& name);

using MethodSettings = std::map<std::string, Settings>;

/// Applies `--set METHOD.KEY=VALUE`. @throws ConfigError for a method that is not there, an unknown key or a bad value.
void assign_settings(const std::vector<std::string>& assignments, MethodSettings& settings);

/// Returns the settings of the methods with these names in the registry of Entry: the registered ones, changed by the
/// assignments.
/// @throws ConfigError as above, and for an unknown name.
template <class Entry>
MethodSettings method_settings(const std::vector<std::string>& names, const std::vector<std::string>& assignments) {
  MethodSettings settings;
  for (const std::string& name : names) settings[name] = Settings(Registry<Entry>::instance().at(name).settings);
  assign_settings(assignments, settings);
  return settings;
}

}  // namespace dragonn::bench

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
#include "core/sparse_vector.h"

namespace dragonn::bench {

/// Adds `--device cpu|cuda` to a subcommand; `name` holds the default.
void add_device_option(CLI::App& command, std::string& name);
/// Adds `--rounds`, `--threads` and the repeatable `--set` to a subcommand.
void add_rounds_option(CLI::App& command, int& rounds);
void add_threads_option(CLI::App& command, int& threads);
void add_set_option(CLI::App& command, std::vector<std::string>& assignments, const std::string& help,
                    const std::string& type_name = "METHOD.KEY=VALUE");
/// Adds an option whose values are separated by commas.
template <class T>
CLI::Option* add_list_option(CLI::App& command, const std::string& name, std::vector<T>& values,
                             const std::string& help) {
  return command.add_option(name, values, help)->delimiter(',');
}
/// The sizes that a gradient may have.
inline CLI::Range gradient_sizes() {
  return CLI::Range(std::size_t{1}, std::size_t{kEmptySlot} - 1);
}

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

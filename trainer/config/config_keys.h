// SPDX-License-Identifier: MIT
/// Config keys: those of config_keys.def and the settings of components, each bound to its place in Config.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/settings.h"
#include "trainer/config/config.h"
#include "trainer/config/toml_config.h"

namespace dragonn::trainer {

/// The effect of a key: whether it can change the numbers that a run computes. The others stay out of config_hash.
enum class KeyRole { kResult, kRuntime };

/// Describes a key of config_keys.def, or a component's setting.
struct ConfigKey {
  std::string table;  ///< empty at the top
  SettingSpec spec;
  KeyRole role = KeyRole::kResult;
  bool required = false;                        ///< there is no default: the file must set it
  std::optional<SettingSpec> alternative = {};  ///< a second valid type
  std::function<SettingValue(const Config&)> get = {};
  std::function<void(Config&, const SettingValue&)> set = {};

  std::string path() const { return table.empty() ? spec.name : table + "." + spec.name; }
  /// Checks type and range, and returns the value. @throws ConfigError.
  SettingValue convert(SettingValue value) const;
  /// Returns the type and range as text: "string, one of tensor | model; or number above 0".
  std::string describe_type() const;
};

/// A component that a config names, and the registered alternatives.
struct ComponentSlot {
  std::string table, key;                                 ///< [model] name, [compression] sparsifier
  std::function<Component&(Config&)> component;           ///< its place in a Config
  std::map<std::string, const SettingSpecs*> registered;  ///< by name: the settings that it declares

  /// Returns whether it is a part of [compression]: its settings stand in the table compression.NAME, which parts of
  /// one name share. Settings of others stand beside the key; one named "outer.momentum" may stand in a table `outer`.
  bool is_part() const { return table.starts_with("compression"); }
  std::string table_of(const std::string& name) const { return is_part() ? table + "." + name : table; }
  const Component& in(const Config& config) const { return component(const_cast<Config&>(config)); }
  /// Returns the settings of the component of that name; they can be set and read in a Config that names it. Empty if
  /// nothing is registered under the name.
  std::vector<ConfigKey> settings(const std::string& name) const;
};

struct ConfigSchema {
  std::vector<ConfigKey> keys;  ///< of config_keys.def, in its order
  std::vector<ComponentSlot> components;
};

/// Returns all keys, and the components that are registered now.
ConfigSchema config_schema();

/// Reads a TOML file as load_config does, up to its keys with the overrides, for resolve_config. It then names the
/// plug-ins of this process by absolute paths, if there are any. @throws ConfigError, as load_config.
RawConfig read_raw_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});

/// Applies `overrides`, fills in defaults, resolves the method, and checks each key. @param complete required keys must
/// be there; otherwise a model or data set without a name stays without settings. @throws ConfigError, as load_config.
Config resolve_config(RawConfig raw, std::span<const std::string> overrides, bool complete);

/// Returns the candidate that `name` most likely means: another word for it (lr: learning_rate, gpu: cuda), one of a
/// similar spelling, or one that contains it. Returns nothing if there is none.
std::optional<std::string> likely_name(const std::string& name, const std::vector<std::string>& candidates);

/// Returns the table that `name` most likely means: as likely_name, and a table that begins it (dataset: data).
std::optional<std::string> likely_table(const std::string& name, const std::vector<std::string>& tables);

/// Returns the fixed key, "table.name", that `name` most likely means in any table; nothing if there is none.
std::optional<std::string> likely_key(const std::string& name);

}  // namespace dragonn::trainer

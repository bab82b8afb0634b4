// SPDX-License-Identifier: MIT
/// The fixed keys of a config: each declared once, and bound to its place in Config.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/settings.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// Whether a key can change the numbers that a run computes; the others stay out of config_hash.
enum class KeyRole { kResult, kRuntime };

/// A key of a table whose keys do not depend on what is registered.
struct ConfigKey {
  std::string table;  ///< empty at the top
  SettingSpec spec;
  KeyRole role = KeyRole::kResult;
  bool required = false;                        ///< no default: the file must say it
  std::optional<SettingSpec> alternative = {};  ///< a second type that is valid too
  std::function<SettingValue(const Config&)> get = {};
  std::function<void(Config&, const SettingValue&)> set = {};

  std::string path() const { return table.empty() ? spec.name : table + "." + spec.name; }
  /// Checks type and range. @throws ConfigError.
  SettingValue convert(SettingValue value) const;
  /// "string, one of tensor | model; or number above 0".
  std::string describe_type() const;
};

/// In the order in which they are printed: table after table. Choices of component names are those registered.
std::vector<ConfigKey> config_keys();

/// A table whose further keys are the settings of the component that it names: [model], [data], ...
struct ComponentTable {
  std::string table;
  std::function<Component&(Config&)> component;
  /// Null if nothing is registered under that name.
  std::function<const SettingSpecs*(const std::string& name)> find;
  /// All registered names, ascending.
  std::function<std::vector<std::string>()> names;
};

/// [model], [data], [optimizer], [schedule].
std::vector<ComponentTable> component_tables();
/// The parts of [compression]; their settings stand in [compression.<name>], which parts of one name share.
std::vector<ComponentTable> compression_parts();

}  // namespace dragonn::trainer

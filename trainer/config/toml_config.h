// SPDX-License-Identifier: MIT
/// Reads TOML into a flat list of keys that remember where they were written. The only user of the TOML library.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/settings.h"

namespace dragonn::trainer {

/// A `key = value` as written.
struct RawKey {
  std::string table;  ///< "compression.dgc"; empty at the top
  std::string name;
  SettingValue value;
  std::string origin;                         ///< "file:line:column", or "--set a.b=value"
  bool is_override = false;                   ///< from the command line
  std::string old_path = {};                  ///< the name that the user wrote, where the key has a new one
  std::string text = {};                      ///< the value of an override as typed
  std::optional<SettingValue> replaced = {};  ///< the file's value, for an override
  bool is_taken = false;  ///< taken by the config's reader; keys that are left at the end are unknown

  std::string path() const { return table.empty() ? name : table + "." + name; }
};

/// A table header, so that a misspelt empty table is noticed.
struct RawTable {
  std::string name;
  std::string origin;
};

struct RawConfig {
  std::vector<RawKey> keys;  ///< no path twice
  std::vector<RawTable> tables;
};

/// Parses TOML. @throws ConfigError "name:line:column: ..." for bad syntax, or a value that no key can have (a date, a
/// list of tables), or for a key that stands there by its old name and its new one.
RawConfig read_toml(const std::string& text, const std::string& name);

/// Adds "a.b=value", replacing what the file or an earlier override said. The value is TOML, or else a string.
/// @throws ConfigError if there is no key or no '='.
void apply_override(RawConfig& raw, const std::string& assignment);

}  // namespace dragonn::trainer

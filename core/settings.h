// SPDX-License-Identifier: MIT
/// Setting declarations and values: every key that a user may set is declared once, with type, default, range and unit.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dragonn {

/// The value of a setting. Integers convert to doubles where a double is declared, never the other way.
using SettingValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>>;

/// "boolean", "integer", "number", "string", "list of integers", "list of numbers".
std::string type_name(const SettingValue& value);
/// As TOML writes it; doubles in the shortest form that reads back to the same bits.
std::string to_toml(const SettingValue& value);

/// Declares one key.
struct SettingSpec {
  std::string name;
  SettingValue default_value;                                 ///< its alternative is the key's type
  std::string help;                                           ///< one line; the unit in it where there is one
  double minimum = -std::numeric_limits<double>::infinity();  ///< of numbers, and of each number of a list
  double maximum = std::numeric_limits<double>::infinity();
  bool exclusive_minimum = false;      ///< the minimum itself is not allowed: density in (0, 1]
  std::vector<std::string> choices{};  ///< of strings; empty: any

  /// Returns the value in the declared type. @throws ConfigError that says `key`, the value and what would be valid.
  SettingValue convert(const std::string& key, SettingValue value) const;
  /// "number in (0, 1]", "string, one of a | b", ...
  std::string describe_type() const;
};

using SettingSpecs = std::vector<SettingSpec>;

/// The settings of one component: declared keys with their values.
class Settings {
 public:
  Settings() = default;
  /// All keys at their defaults.
  explicit Settings(const SettingSpecs& specs);

  /// @throws ConfigError for an undeclared name (the nearest is proposed), a wrong type or a value out of range.
  void set(const std::string& name, SettingValue value);
  bool contains(const std::string& name) const { return values_.contains(name); }

  bool flag(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  const std::string& text(const std::string& name) const;
  const std::vector<std::int64_t>& integers(const std::string& name) const;
  const std::vector<double>& numbers(const std::string& name) const;

  const SettingSpecs& specs() const { return specs_; }
  const SettingValue& value(const std::string& name) const;

 private:
  SettingSpecs specs_;
  std::map<std::string, SettingValue> values_;
};

/// The candidate with the smallest edit distance to `name`, if any is close enough to be what was meant.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// "unknown sparsifier 'topkk'; did you mean 'topk'? valid: dgc, randomk, topk"
std::string unknown_name_message(std::string_view kind, std::string_view name, const std::vector<std::string>& valid);

}  // namespace dragonn

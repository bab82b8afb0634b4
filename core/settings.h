// SPDX-License-Identifier: MIT
/// Settings: every key that a user may set is declared once, with type, default, range and unit.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dragonn {

/// The value of a setting. An integer converts to a double where a double is declared, never the other way round.
using SettingValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                                  std::vector<double>, std::vector<std::string>>;

/// Returns the type's name: "boolean", "integer", "number", "string", "list of integers", "list of numbers", "list of
/// strings".
std::string type_name(const SettingValue& value);
/// Returns the value as TOML writes it; doubles in the shortest form that reads back to the same bits.
std::string to_toml(const SettingValue& value);

/// Declares one key.
struct SettingSpec {
  static constexpr double kUnbounded = std::numeric_limits<double>::infinity();

  /// A key of each of the usual types.
  static SettingSpec flag(std::string name, bool value, std::string help) {
    return {std::move(name), value, std::move(help)};
  }
  static SettingSpec integer(std::string name, std::int64_t value, std::string help, double minimum = -kUnbounded,
                             double maximum = kUnbounded) {
    return {std::move(name), value, std::move(help), minimum, maximum};
  }
  static SettingSpec number(std::string name, double value, std::string help, double minimum = -kUnbounded,
                            double maximum = kUnbounded) {
    return {std::move(name), value, std::move(help), minimum, maximum};
  }
  static SettingSpec text(std::string name, std::string value, std::string help,
                          std::vector<std::string> choices = {}) {
    return {.name = std::move(name), .default_value = value, .help = std::move(help), .choices = std::move(choices)};
  }
  /// The same key, but the minimum itself is not allowed.
  SettingSpec above_minimum() && {
    exclusive_minimum = true;
    return std::move(*this);
  }

  std::string name;
  SettingValue default_value;    ///< its alternative is the key's type
  std::string help;              ///< one line; the unit in it where there is one
  double minimum = -kUnbounded;  ///< of numbers, and of each number of a list
  double maximum = kUnbounded;
  bool exclusive_minimum = false;      ///< the minimum itself is not allowed: density in (0, 1]
  std::vector<std::string> choices{};  ///< valid strings; empty if any is

  /// Returns the value in the declared type. @throws ConfigError that names `key`, the value and the valid values.
  SettingValue convert(const std::string& key, SettingValue value) const;
  /// Returns the type and range as text: "number in (0, 1]", "string, one of a | b", ...
  std::string describe_type() const;
};

using SettingSpecs = std::vector<SettingSpec>;

/// The settings of one component: declared keys with their values.
class Settings {
 public:
  Settings() = default;
  /// Sets all keys to their defaults.
  explicit Settings(const SettingSpecs& specs);

  /// Sets a value. @throws ConfigError for an undeclared name (the nearest is proposed), a wrong type or a value out of
  /// range.
  void set(const std::string& name, SettingValue value);
  bool contains(const std::string& name) const { return values_.contains(name); }

  bool flag(const std::string& name) const { return std::get<bool>(value(name)); }
  std::int64_t integer(const std::string& name) const { return std::get<std::int64_t>(value(name)); }
  double number(const std::string& name) const { return std::get<double>(value(name)); }
  const std::string& text(const std::string& name) const { return std::get<std::string>(value(name)); }
  const auto& integers(const std::string& name) const { return std::get<std::vector<std::int64_t>>(value(name)); }
  const auto& numbers(const std::string& name) const { return std::get<std::vector<double>>(value(name)); }

  const SettingSpecs& specs() const { return specs_; }
  const SettingValue& value(const std::string& name) const;

 private:
  SettingSpecs specs_;
  std::map<std::string, SettingValue> values_;
};

/// Returns the candidate with the smallest edit distance to `name`; nothing if none is close enough to be meant.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// Returns the error for an unknown name: "unknown sparsifier 'topkk'; did you mean 'topk'? valid: dgc, randomk, topk".
std::string unknown_name_message(std::string_view kind, std::string_view name, const std::vector<std::string>& valid);

/// The name of a registered component, with its settings.
struct Component {
  std::string name;
  Settings settings;
};

}  // namespace dragonn

// SPDX-License-Identifier: MIT
#include "trainer/config/toml_config.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "core/error.h"
#include "core/printable.h"

static_assert(TOML_EXCEPTIONS, "the distribution's toml++ library is built with exceptions");

namespace dragonn::trainer {
namespace {

std::string position(const std::string& name, const toml::source_region& source) {
  return fmt::format("{}:{}:{}", name, source.begin.line, source.begin.column);
}

/// Returns a list of strings, of integers, or of numbers if at least one has a fraction.
std::optional<SettingValue> list_value(const toml::array& array) {
  if (!array.empty() && array.is_homogeneous<std::string>()) {
    std::vector<std::string> list;
    for (const toml::node& node : array) list.push_back(**node.as_string());
    return list;
  }
  const auto is_number = [](const toml::node& node) { return node.is_number(); };
  if (!std::all_of(array.begin(), array.end(), is_number)) return std::nullopt;
  if (array.empty() || array.is_homogeneous<std::int64_t>()) {
    std::vector<std::int64_t> list;
    for (const toml::node& node : array) list.push_back(**node.as_integer());
    return list;
  }
  std::vector<double> list;
  for (const toml::node& node : array) list.push_back(*node.value<double>());
  return list;
}

/// Returns a value; nothing for types that no key has: a date, a time, a table, a list of anything but numbers or
/// strings.
std::optional<SettingValue> setting_value(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return SettingValue(flag->get());
  if (const auto* integer = node.as_integer()) return SettingValue(integer->get());
  if (const auto* number = node.as_floating_point()) return SettingValue(number->get());
  if (const auto* text = node.as_string()) return SettingValue(text->get());
  if (const auto* array = node.as_array()) return list_value(*array);
  return std::nullopt;
}

std::string one_line(const toml::node& node) {
  std::ostringstream stream;
  node.visit([&](const auto& concrete) { stream << concrete; });
  std::string text = stream.str();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// Gives a key that stands under its name of earlier versions the new one; the log says what it is now.
void take_new_name(RawKey& key) {
  for (const auto& [old_path, name] :
       {std::pair("compression.dragonn.memory", "slots"), std::pair("compression.qsgd.bucket", "group")}) {
    if (key.path() != old_path) continue;
    key.old_path = old_path;
    key.name = name;
  }
}

void flatten(const toml::table& table, const std::string& prefix, const std::string& name, RawConfig& out) {
  for (const auto& [key, node] : table) {
    RawKey raw;
    raw.table = prefix;
    raw.name = std::string(key.str());
    raw.origin = position(name, key.source());
    if (const toml::table* nested = node.as_table()) {
      out.tables.push_back({raw.path(), raw.origin});
      flatten(*nested, raw.path(), name, out);
      continue;
    }
    const std::optional<SettingValue> value = setting_value(node);
    if (!value) {
      throw ConfigError(
          fmt::format("{}: {} = {}: expected a boolean, integer, number, string, or list of numbers or strings",
                      raw.origin, excerpt(raw.path()), excerpt(one_line(node))));
    }
    raw.value = *value;
    take_new_name(raw);
    out.keys.push_back(std::move(raw));
  }
}

/// Refuses keys of so many parts that the tables' recursion would overflow the stack. Dots of one line bound the parts
/// of its keys.
void refuse_deep_keys(const std::string& text, const std::string& name) {
  constexpr std::ptrdiff_t kMaxDots = 500;
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::ptrdiff_t dots = std::ranges::count(line, '.');
    if (dots <= kMaxDots) continue;
    throw ConfigError(fmt::format("{}:{}: a line with {} dots: expected at most {}", name, number, dots, kMaxDots));
  }
}

/// Returns a number with a point, also first or last, as in .5 and 1., which TOML does not know; else nothing.
std::optional<double> number_with_point(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && text.find('.') != text.npos;
  return is_number ? std::optional(number) : std::nullopt;
}

/// Returns the value of an override: TOML if it is that, or a number that is almost, or else the text itself.
SettingValue override_value(const std::string& text) {
  refuse_deep_keys(text, "--set");
  if (const auto number = number_with_point(text)) return *number;
  try {
    const toml::table parsed = toml::parse("value = " + text);
    if (parsed.size() == 1) return setting_value(*parsed.get("value")).value_or(text);
  } catch (const toml::parse_error&) {
    return text;  // a bare word
  }
  return text;
}

}  // namespace

RawConfig read_toml(const std::string& text, const std::string& name) {
  RawConfig raw;
  refuse_deep_keys(text, name);
  try {
    flatten(toml::parse(text), "", name, raw);
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}: {}", position(name, error.source()), excerpt(error.description(), 300)));
  }
  for (const RawKey& key : raw.keys) {
    if (key.old_path.empty() || std::ranges::count(raw.keys, key.path(), &RawKey::path) == 1) continue;
    throw ConfigError(fmt::format("{}: {} is called {} now, which is set as well: expected one of them", key.origin,
                                  key.old_path, key.path()));
  }
  return raw;
}

void apply_override(RawConfig& raw, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string path = assignment.substr(0, equals);
  const std::string origin = "--set " + excerpt(assignment);
  if (equals == std::string::npos || path.empty() || path.front() == '.' || path.back() == '.') {
    throw ConfigError(fmt::format("{}: expected key=value, for instance train.epochs=5", origin));
  }
  const std::size_t dot = path.rfind('.');
  const std::string text = assignment.substr(equals + 1);
  RawKey key{.table = dot == std::string::npos ? "" : path.substr(0, dot),
             .name = dot == std::string::npos ? path : path.substr(dot + 1),
             .value = override_value(text),
             .origin = origin,
             .is_override = true,
             .text = text};
  take_new_name(key);
  const auto earlier = std::ranges::find(raw.keys, key.path(), &RawKey::path);
  if (earlier == raw.keys.end()) {
    raw.keys.push_back(std::move(key));
    return;
  }
  key.replaced = earlier->is_override ? earlier->replaced : earlier->value;
  *earlier = std::move(key);
}

}  // namespace dragonn::trainer

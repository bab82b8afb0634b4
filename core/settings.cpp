// SPDX-License-Identifier: MIT
#include "core/settings.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/printable.h"

namespace dragonn {
namespace {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;

std::string toml(bool flag) {
  return flag ? "true" : "false";
}
std::string toml(std::int64_t number) {
  return fmt::format("{}", number);
}
std::string toml(double number) {
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  if (std::isnan(number)) return "nan";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}
std::string toml(const std::string& text) {
  std::string result = "\"";
  for (char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (letter == '\n') {
      result += "\\n";
    } else if (letter == '\t') {
      result += "\\t";
    } else if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) {
      result += fmt::format("\\u{:04X}", static_cast<unsigned>(letter));
    } else {
      result += letter;
    }
  }
  return result + '"';
}

template <class T>
std::string toml(const std::vector<T>& list) {
  std::vector<std::string> words;
  for (const T& item : list) words.push_back(toml(item));
  return fmt::format("[{}]", fmt::join(words, ", "));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string type_name(const SettingValue& value) {
  constexpr const char* kNames[] = {"boolean",          "integer",         "number",         "string",
                                    "list of integers", "list of numbers", "list of strings"};
  return kNames[value.index()];
}

std::string to_toml(const SettingValue& value) {
  return std::visit([](const auto& held) { return toml(held); }, value);
}

SettingValue SettingSpec::convert(const std::string& key, SettingValue value) const {
  const auto fail = [&]() -> ConfigError {
    return ConfigError(fmt::format("{} = {}: expected {}", key, excerpt(to_toml(value)), describe_type()));
  };
  if (value.index() != default_value.index()) {
    const auto* const integer = std::get_if<std::int64_t>(&value);
    const auto* const integers = std::get_if<Integers>(&value);
    const auto* const numbers = std::get_if<Numbers>(&value);
    if (integer != nullptr && std::holds_alternative<double>(default_value)) {
      value = static_cast<double>(*integer);
    } else if (integers != nullptr && std::holds_alternative<Numbers>(default_value)) {
      value = Numbers(integers->begin(), integers->end());
    } else if (numbers != nullptr && numbers->empty() && std::holds_alternative<Integers>(default_value)) {
      value = Integers{};  // an empty list says no type
    } else if (integers != nullptr && integers->empty() && std::holds_alternative<Texts>(default_value)) {
      value = Texts{};
    } else {
      throw fail();
    }
  }
  // Without a limit a number is still finite: what stands for "never" or "all" is a word or 0.
  const auto in_range = [&](auto value_or_item) {
    const auto number = static_cast<double>(value_or_item);
    return std::isfinite(number) && (exclusive_minimum ? number > minimum : number >= minimum) && number <= maximum;
  };
  bool valid = true;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) valid = in_range(*integer);
  if (const auto* number = std::get_if<double>(&value)) valid = in_range(*number);
  if (const auto* text = std::get_if<std::string>(&value)) {
    valid = choices.empty() || std::ranges::find(choices, *text) != choices.end();
  }
  if (const auto* list = std::get_if<Integers>(&value)) valid = std::ranges::all_of(*list, in_range);
  if (const auto* list = std::get_if<Numbers>(&value)) valid = std::ranges::all_of(*list, in_range);
  if (!valid) throw fail();
  return value;
}

std::string SettingSpec::describe_type() const {
  std::string text = type_name(default_value);
  if (!choices.empty()) return fmt::format("{}, one of {}", text, fmt::join(choices, " | "));
  const bool bounded_below = std::isfinite(minimum), bounded_above = std::isfinite(maximum);
  if (bounded_below && bounded_above) {
    return fmt::format("{} in {}{}, {}]", text, exclusive_minimum ? '(' : '[', minimum, maximum);
  }
  if (bounded_below) return fmt::format("{} {} {}", text, exclusive_minimum ? "above" : "of at least", minimum);
  if (bounded_above) return fmt::format("{} of at most {}", text, maximum);
  return text;
}

Settings::Settings(const SettingSpecs& specs) : specs_(specs) {
  for (const SettingSpec& spec : specs_) values_[spec.name] = spec.default_value;
}

void Settings::set(const std::string& name, SettingValue value) {
  const auto spec = std::ranges::find(specs_, name, &SettingSpec::name);
  if (spec == specs_.end()) {
    std::vector<std::string> names;
    for (const SettingSpec& known : specs_) names.push_back(known.name);
    throw ConfigError(unknown_name_message("setting", name, names));
  }
  values_[name] = spec->convert(name, std::move(value));
}

const SettingValue& Settings::value(const std::string& name) const {
  const auto found = values_.find(name);
  DRAGONN_CHECK(found != values_.end(), "setting {} was never declared", name);
  return found->second;
}

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  if (name.size() > kLongestExcerpt) return best;  // near to no name, and slow to compare
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string unknown_name_message(std::string_view kind, std::string_view name, const std::vector<std::string>& valid) {
  const auto nearest = nearest_name(name, valid);
  const std::string hint = nearest ? fmt::format("did you mean '{}'? ", *nearest) : "";
  return fmt::format("unknown {} '{}'; {}valid: {}", kind, excerpt(name), hint, fmt::join(valid, ", "));
}

}  // namespace dragonn

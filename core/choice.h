// SPDX-License-Identifier: MIT
/// Choice: an enum whose values have names in configs and on command lines. The names are declared beside the enum,
/// once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "core/settings.h"

namespace dragonn {

/// An enum E with a function `constexpr std::array choices(E)` in its namespace, which returns the names of its values
/// in their order. The values count from 0.
template <class E>
concept Choice = std::is_enum_v<E> && requires(E value) {
  std::string(choices(value)[0]);
};

/// Returns the name of a value, as configs write it.
template <Choice E>
std::string name_of(E value) {
  return choices(value)[static_cast<std::size_t>(value)];
}

/// Returns the names of all values, in their order.
template <Choice E>
std::vector<std::string> choice_names() {
  const auto names = choices(E{});
  return {names.begin(), names.end()};
}

/// Returns the value with that name. @param kind what is chosen, for the error. @throws ConfigError listing the valid
/// names.
template <Choice E>
E choice_of(std::string_view kind, std::string_view name) {
  const auto names = choices(E{});
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<E>(found - names.begin());
  std::vector<std::string> valid = choice_names<E>();
  std::ranges::sort(valid);
  throw ConfigError(unknown_name_message(kind, name, valid));
}

/// Returns the names in a table of variants, which have a member `name` each.
template <class Table>
std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const auto& variant : table) names.emplace_back(variant.name);
  return names;
}

/// Returns the variant of that name, which is in the table.
template <class Table>
const auto& variant_of(const Table& table, std::string_view name) {
  return *std::ranges::find_if(table, [&](const auto& variant) { return name == variant.name; });
}

}  // namespace dragonn

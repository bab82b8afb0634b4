// SPDX-License-Identifier: MIT
#include "optim/name_patterns.h"

#include <algorithm>
#include <fnmatch.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"

namespace dragonn::optim {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBlanks)));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    parts.emplace_back(trim(part));
  }
  return parts;
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

void require_match(const std::string& where, const std::string& pattern, const ParameterArena& arena, bool matrices) {
  std::vector<std::string> names;
  for (const Parameter& parameter : arena.parameters())
    if (!matrices || parameter.shape.rank() == 2) names.push_back(parameter.name);
  if (std::ranges::any_of(names, [&](const std::string& name) { return matches(pattern, name); })) return;
  constexpr std::size_t kShown = 12;
  const std::size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  throw ConfigError(fmt::format("{}: '{}' matches no {} of the model: expected a pattern of names such as {}{}", where,
                                pattern, matrices ? "matrix" : "parameter", fmt::join(names, ", "),
                                more > 0 ? fmt::format(" and {} more", more) : ""));
}

}  // namespace dragonn::optim

// SPDX-License-Identifier: MIT
#include "report/label.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::report {
namespace {

/// Returns the last `parts` parts of a path.
std::string tail(const std::filesystem::path& path, std::size_t parts) {
  std::filesystem::path result = path.filename();
  std::filesystem::path rest = path.parent_path();
  for (std::size_t i = 1; i < parts && rest.has_filename(); ++i, rest = rest.parent_path()) {
    result = rest.filename() / result;
  }
  return result.string();
}

std::string common_prefix(std::span<const Run> runs) {
  std::string_view prefix = runs.front().name;
  for (const Run& run : runs) {
    const auto difference = std::ranges::mismatch(prefix, run.name).in1;
    prefix = prefix.substr(0, static_cast<std::size_t>(difference - prefix.begin()));
  }
  return std::string(prefix);
}

/// Removes separators and the word "seed" from the end.
std::string without_seed_suffix(std::string text) {
  const auto strip = [&] {
    while (!text.empty() && std::string_view("-_./= ").find(text.back()) != std::string_view::npos) text.pop_back();
  };
  strip();
  for (std::string_view word : {"seed", "s"}) {
    const std::size_t start = text.size() - std::min(text.size(), word.size());
    if (text.ends_with(word) && start > 0 && std::string_view("-_./").find(text[start - 1]) != std::string_view::npos) {
      text.erase(start);
      strip();
    }
  }
  return text;
}

/// Returns the first run that has a config; null without one.
const Run* reference(std::span<const Run> runs) {
  for (const Run& run : runs) {
    if (!run.config.empty()) return &run;
  }
  return nullptr;
}

bool is_of_task(const std::string& key) {
  return (key.starts_with("model.") || key.starts_with("data.")) && key != "data.path";
}

}  // namespace

void name_apart(std::span<Run> runs) {
  for (std::size_t parts = 1;; ++parts) {
    std::map<std::string, std::vector<Run*>> by_name;
    for (Run& run : runs) by_name[run.name].push_back(&run);
    bool changed = false;
    for (auto& [name, same] : by_name) {
      if (same.size() < 2) continue;
      for (Run* run : same) {
        std::string longer = tail(run->path, parts + 1);
        changed = changed || longer != run->name;
        run->name = std::move(longer);
      }
    }
    if (!changed) return;
  }
}

std::string group_label(std::span<const Run> runs) {
  if (runs.size() == 1) return runs.front().name;
  const std::string prefix = without_seed_suffix(common_prefix(runs));
  return prefix.empty() ? runs.front().name : prefix;
}

void require_one_task(std::span<const Run> runs) {
  const Run* first = reference(runs);
  for (const Run& run : runs) {
    if (run.config.empty()) continue;
    for (const char* key : {"data.name", "model.name"}) {
      if (run.setting(key) == first->setting(key)) continue;
      throw ConfigError(
          fmt::format("{} and {} are runs of different tasks: {} is \"{}\" and \"{}\"; expected one data set and model "
                      "(--allow-different-tasks compares them all the same)",
                      first->name, run.name, key, first->setting(key), run.setting(key)));
    }
  }
}

std::vector<std::string> task_warnings(std::span<const Run> runs) {
  std::vector<std::string> warnings;
  const Run* first = reference(runs);
  std::set<std::string> told;
  for (const Run& run : runs) {
    if (run.config.empty()) continue;
    std::set<std::string> keys;
    for (const Run* both : {first, &run}) {
      for (const auto& [key, value] : both->config) keys.insert(key);
    }
    for (const std::string& key : keys) {
      if (!is_of_task(key) || run.setting(key) == first->setting(key) || !told.insert(key).second) continue;
      warnings.push_back(fmt::format("{} differs: \"{}\" in {}, \"{}\" in {}; their qualities may not compare", key,
                                     first->setting(key), first->name, run.setting(key), run.name));
    }
  }
  return warnings;
}

}  // namespace dragonn::report

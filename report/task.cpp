// SPDX-License-Identifier: MIT
#include "report/task.h"

#include <set>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::report {
namespace {

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

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/hash.h"
#include "core/units_text.h"
#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"

namespace dragonn::trainer {
namespace {

constexpr std::size_t kCommentWidth = 118;

/// A comment of as many lines as it takes, broken between words.
std::string comment(const std::string& text) {
  std::string lines;
  for (const std::string& line : wrapped(text, kCommentWidth)) lines += "# " + line + "\n";
  return lines;
}

/// A key as it is printed.
struct Line {
  std::string help;
  std::string type;
  std::string name;
  SettingValue value;
  std::optional<SettingValue> default_value;
};

/// A required key without a value is a comment as a whole.
std::string commented(const Line& line) {
  const std::string fallback =
      line.default_value ? fmt::format("default {}", dragonn::to_toml(*line.default_value)) : std::string("required");
  const bool is_missing = !line.default_value && line.value == SettingValue(std::string());
  return comment(fmt::format("{}; {}; {}", line.help, line.type, fallback)) +
         fmt::format("{}{} = {}\n", is_missing ? "# " : "", line.name, dragonn::to_toml(line.value));
}

Line setting_line(const SettingSpec& spec, const Settings& settings) {
  return {spec.help, spec.describe_type(), spec.name, settings.value(spec.name), spec.default_value};
}

/// The settings of the compression's parts, by part name and key: parts of one name share a table.
std::map<std::string, std::map<std::string, Line>> compression_settings(Config& config) {
  std::map<std::string, std::map<std::string, Line>> tables;
  for (const ComponentTable& part : compression_parts()) {
    const Component& component = part.component(config);
    for (const SettingSpec& spec : component.settings.specs()) {
      tables[component.name].emplace(spec.name, setting_line(spec, component.settings));
    }
  }
  return tables;
}

const Component* component_of(const std::string& table, Config& config) {
  for (const ComponentTable& candidate : component_tables()) {
    if (candidate.table == table) return &candidate.component(config);
  }
  return nullptr;
}

}  // namespace

std::string to_toml(const Config& given) {
  Config config = given;  // component access is by mutable reference
  std::string text = "# Every key of this run, resolved. dragonn-train takes this file as it is.\n";
  std::string table;
  const auto close_table = [&] {
    const Component* component = component_of(table, config);
    if (component == nullptr) return;
    for (const SettingSpec& spec : component->settings.specs()) {
      text += commented(setting_line(spec, component->settings));
    }
  };
  for (const ConfigKey& key : config_keys()) {
    if (key.table != table) {
      close_table();
      table = key.table;
      text += fmt::format("\n[{}]\n", table);
    }
    const std::optional<SettingValue> fallback = key.required ? std::nullopt : std::optional(key.spec.default_value);
    text += commented({key.spec.help, key.describe_type(), key.spec.name, key.get(config), fallback});
  }
  close_table();
  for (const auto& [name, lines] : compression_settings(config)) {
    text += fmt::format("\n[compression.{}]\n", name);
    for (const auto& [key, line] : lines) text += commented(line);
  }
  return text;
}

namespace {

/// Every key that can change the numbers of a run, "table.name", with its value, in the order of printing.
using ResultKeys = std::vector<std::pair<std::string, std::string>>;

ResultKeys result_keys(const Config& given) {
  Config config = given;
  ResultKeys keys;
  const auto add = [&](const std::string& table, const std::string& name, const SettingValue& value) {
    keys.emplace_back(fmt::format("{}.{}", table, name), dragonn::to_toml(value));
  };
  for (const ConfigKey& key : config_keys()) {
    if (key.role == KeyRole::kResult) add(key.table, key.spec.name, key.get(config));
  }
  for (const ComponentTable& table : component_tables()) {
    const Settings& settings = table.component(config).settings;
    for (const SettingSpec& spec : settings.specs()) add(table.table, spec.name, settings.value(spec.name));
  }
  for (const auto& [name, lines] : compression_settings(config)) {
    for (const auto& [key, line] : lines) add("compression." + name, key, line.value);
  }
  return keys;
}

/// The settings of one component that is not in use, in comments; empty if it has none.
std::string other_component(const std::string& table, const SettingSpecs& specs) {
  if (specs.empty()) return "";
  std::string text = fmt::format("\n# {}\n", table);
  const Settings defaults(specs);
  for (const SettingSpec& spec : specs) {
    const Line line = setting_line(spec, defaults);
    text += comment(fmt::format("{}; {}", line.help, line.type));
    text += fmt::format("#   {} = {}\n", line.name, dragonn::to_toml(line.value));
  }
  return text;
}

}  // namespace

std::string other_settings(const Config& given) {
  Config config = given;
  std::string text = "\n# Settings of the components that this config does not name, at their defaults.\n";
  for (const ComponentTable& table : component_tables()) {
    for (const std::string& name : table.names()) {
      if (name == table.component(config).name) continue;
      text += other_component(fmt::format("[{}] with name = \"{}\":", table.table, name), *table.find(name));
    }
  }
  for (const ComponentTable& part : compression_parts()) {
    for (const std::string& name : part.names()) {
      if (name == part.component(config).name) continue;
      text +=
          other_component(fmt::format("[compression.{}] with {} = \"{}\":", name, part.table, name), *part.find(name));
    }
  }
  return text;
}

std::vector<std::string> config_changes(const Config& before, const Config& after) {
  const ResultKeys old_keys = result_keys(before), new_keys = result_keys(after);
  const auto value_in = [](const ResultKeys& keys, const std::string& path) {
    const auto found = std::ranges::find(keys, path, &ResultKeys::value_type::first);
    return found == keys.end() ? std::string("absent") : found->second;
  };
  std::vector<std::string> changes;
  const auto compare = [&](const std::string& path) {
    const std::string was = value_in(old_keys, path), is = value_in(new_keys, path);
    const std::string name = path.starts_with('.') ? path.substr(1) : path;  // keys at the top
    if (was != is) changes.push_back(fmt::format("{} {} -> {}", name, was, is));
  };
  for (const auto& [path, value] : new_keys) compare(path);
  for (const auto& [path, value] : old_keys) {
    if (value_in(new_keys, path) == "absent") compare(path);
  }
  return changes;
}

std::string config_hash(const Config& config) {
  std::string text;
  for (const auto& [path, value] : result_keys(config)) text += fmt::format("{} = {}\n", path, value);
  return hash_text(hash_bytes(std::as_bytes(std::span(text))));
}

}  // namespace dragonn::trainer

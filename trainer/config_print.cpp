// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <span>
#include <string>

#include <fmt/format.h>

#include "core/hash.h"
#include "trainer/config.h"
#include "trainer/config_keys.h"

namespace dragonn::trainer {
namespace {

constexpr std::size_t kCommentWidth = 118;

/// A comment of as many lines as it takes, broken between words.
std::string comment(const std::string& text) {
  std::string lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.size();
    if (end - begin > kCommentWidth) {
      const std::size_t space = text.rfind(' ', begin + kCommentWidth);
      end = space == std::string::npos || space <= begin ? text.find(' ', begin + kCommentWidth) : space;
      end = std::min(end, text.size());
    }
    lines += "# " + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
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

std::string commented(const Line& line) {
  const std::string fallback =
      line.default_value ? fmt::format("default {}", dragonn::to_toml(*line.default_value)) : std::string("required");
  return comment(fmt::format("{}; {}; {}", line.help, line.type, fallback)) +
         fmt::format("{} = {}\n", line.name, dragonn::to_toml(line.value));
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

std::string config_hash(const Config& given) {
  Config config = given;
  std::string text;
  const auto add = [&](const std::string& table, const std::string& name, const SettingValue& value) {
    text += fmt::format("{}.{} = {}\n", table, name, dragonn::to_toml(value));
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
  return hash_text(hash_bytes(std::as_bytes(std::span(text))));
}

}  // namespace dragonn::trainer

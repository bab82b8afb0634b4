// SPDX-License-Identifier: MIT
/// The keys of a config in words: as TOML, as a manual page, and as words for completions.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/hash.h"
#include "core/program.h"
#include "core/program_pages.h"
#include "core/units_text.h"
#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"

namespace dragonn::trainer {
namespace {

constexpr std::size_t kCommentWidth = 118;

/// Returns a comment of as many lines as it takes, broken between words.
std::string comment(const std::string& text) {
  std::string lines;
  for (const std::string& line : wrapped(text, kCommentWidth)) lines += "# " + line + "\n";
  return lines;
}

/// Returns "help; type; default": a key in words.
std::string meaning(const ConfigKey& key) {
  const std::string fallback =
      key.required ? "required" : fmt::format("default {}", dragonn::to_toml(key.spec.default_value));
  return fmt::format("{}; {}; {}", key.spec.help, key.describe_type(), fallback);
}

/// Calls visit(slot, name, keys) for every registered component that has settings.
template <class Visit>
void for_each_component(const ConfigSchema& schema, const Visit& visit) {
  for (const ComponentSlot& slot : schema.components) {
    for (const auto& [name, specs] : slot.registered) {
      if (!specs->empty()) visit(slot, name, slot.settings(name));
    }
  }
}

/// Returns the lines of a key. A required one without a value is a comment as a whole.
std::string to_toml(const ConfigKey& key, const Config& config) {
  const SettingValue value = key.get(config);
  const bool is_missing = key.required && value == SettingValue(std::string());
  return comment(meaning(key)) +
         fmt::format("{}{} = {}\n", is_missing ? "# " : "", key.spec.name, dragonn::to_toml(value));
}

/// Returns all keys and settings that the config has, in the order of config_hash: fixed keys, components, parts by
/// their name.
std::vector<ConfigKey> keys_of(const Config& config) {
  ConfigSchema schema = config_schema();
  std::map<std::string, ConfigKey> of_parts;  // by path, since parts of one name share a table
  for (const ComponentSlot& slot : schema.components) {
    const Component& component = slot.in(config);
    for (const ConfigKey& key : slot.settings(component.name)) {
      if (!component.settings.contains(key.spec.name)) continue;
      if (slot.is_part()) of_parts.emplace(key.path(), key);
      if (!slot.is_part()) schema.keys.push_back(key);
    }
  }
  for (const auto& [path, key] : of_parts) schema.keys.push_back(key);
  return std::move(schema.keys);
}

constexpr const char* kHead = R"(.SH NAME
dragonn\-train.toml \- experiments of dragonn\-train
.SH DESCRIPTION
A config is a TOML file. Keys that it leaves out have their defaults; an unknown key is an error. The option
\fB\-\-set\fR of \fBdragonn\-train\fR(1) sets one as \fItable.key=value\fR, and \fB\-\-print\-config\fR prints all of a
config, resolved. A table that names a component (\fBmodel\fR, \fBdata\fR, \fBoptimizer\fR, \fBschedule\fR,
\fBupdate\fR) also takes that component's settings; settings of the parts of \fBcompression\fR are in tables of their names.
.SH KEYS
)";

constexpr const char* kFoot = R"(.SH SEE ALSO
\fBdragonn\-train\fR(1)
)";

/// Returns every key that can change the numbers of a run, with its value.
std::vector<std::pair<std::string, std::string>> result_keys(const Config& config) {
  constexpr const char* kThreadsOfData = "data.decode_threads";  // the one setting of a data set that changes none
  std::vector<std::pair<std::string, std::string>> keys;
  for (const ConfigKey& key : keys_of(config)) {
    if (key.role != KeyRole::kResult || key.path() == kThreadsOfData) continue;
    keys.emplace_back(key.table + "." + key.spec.name, dragonn::to_toml(key.get(config)));
  }
  return keys;
}

}  // namespace

std::string to_toml(const Config& config) {
  std::string text = "# Every key of this run, resolved. This file is itself a config for dragonn-train.\n";
  const std::vector<ConfigKey> keys = keys_of(config);
  std::vector<std::string> tables;
  for (const ConfigKey& key : keys) {
    if (!std::ranges::count(tables, key.table)) tables.push_back(key.table);
  }
  for (const std::string& table : tables) {
    if (!table.empty()) text += fmt::format("\n[{}]\n", table);
    for (const ConfigKey& key : keys) {
      if (key.table == table) text += to_toml(key, config);
    }
  }
  return text;
}

std::string other_settings(const Config& config) {
  std::string text = "\n# Settings of the components that this config does not name, at their defaults.\n";
  for_each_component(config_schema(), [&](const ComponentSlot& slot, const std::string& name, const auto& keys) {
    if (name == slot.in(config).name) return;
    text += fmt::format("\n# [{}] with {} = \"{}\":\n", slot.table_of(name), slot.key, name);
    for (const ConfigKey& key : keys) {
      text += comment(fmt::format("{}; {}", key.spec.help, key.describe_type()));
      text += fmt::format("#   {} = {}\n", key.spec.name, dragonn::to_toml(key.spec.default_value));
    }
  });
  return text;
}

std::string config_man_page() {
  const ConfigSchema schema = config_schema();
  std::string text = fmt::format(
      ".\\\" Generated from the program's declared keys.\n"
      ".TH DRAGONN\\-TRAIN.TOML 5 \"\" \"dragonn {}\" \"File Formats\"\n{}",
      roff(version()), kHead);
  const auto add_heading = [&](const std::string& words) { text += fmt::format(".SS \"{}\"\n", roff(words)); };
  const auto add_key = [&](const ConfigKey& key) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(key.spec.name), roff(meaning(key)));
  };
  std::string table = "none yet";
  for (const ConfigKey& key : schema.keys) {
    if (key.table != table) add_heading(key.table.empty() ? "Above all tables" : fmt::format("[{}]", key.table));
    table = key.table;
    add_key(key);
  }
  text += ".SH SETTINGS OF COMPONENTS\n";
  for_each_component(schema, [&](const ComponentSlot& slot, const std::string& name, const auto& keys) {
    add_heading(fmt::format("[{}] with {} = {}", slot.table_of(name), slot.key, name));
    std::ranges::for_each(keys, add_key);
  });
  return text + kFoot;
}

std::vector<std::string> config_words() {
  const ConfigSchema schema = config_schema();
  std::set<std::string> words;
  const auto add = [&](const ConfigKey& key) {
    const std::string path = key.path();
    words.insert(path + "=");
    for (const std::string& choice : key.spec.choices) words.insert(fmt::format("{}={}", path, choice));
    if (std::holds_alternative<bool>(key.spec.default_value)) words.insert({path + "=true", path + "=false"});
  };
  std::ranges::for_each(schema.keys, add);
  for_each_component(schema, [&](const auto&, const auto&, const auto& keys) { std::ranges::for_each(keys, add); });
  return {words.begin(), words.end()};
}

std::vector<std::string> config_changes(const Config& before, const Config& after) {
  const auto old_keys = result_keys(before), new_keys = result_keys(after);
  const std::map<std::string, std::string> was(old_keys.begin(), old_keys.end()), is(new_keys.begin(), new_keys.end());
  std::vector<std::string> changes;
  const auto compare = [&](const std::string& path) {
    const std::string old_value = was.contains(path) ? was.at(path) : "absent";
    const std::string new_value = is.contains(path) ? is.at(path) : "absent";
    const std::string name = path.starts_with('.') ? path.substr(1) : path;  // keys at the top
    if (old_value != new_value) changes.push_back(fmt::format("{} {} -> {}", name, old_value, new_value));
  };
  for (const auto& [path, value] : new_keys) compare(path);
  for (const auto& [path, value] : old_keys) {
    if (!is.contains(path)) compare(path);
  }
  return changes;
}

std::string config_hash(const Config& config) {
  std::string text;
  for (const auto& [path, value] : result_keys(config)) text += fmt::format("{} = {}\n", path, value);
  return hash_text(hash_bytes(std::as_bytes(std::span(text))));
}

}  // namespace dragonn::trainer

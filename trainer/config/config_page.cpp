// SPDX-License-Identifier: MIT
#include "trainer/config/config_page.h"

#include <set>

#include <fmt/format.h>

#include "core/program.h"
#include "core/program_pages.h"
#include "trainer/config/config_keys.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kHead = R"(.SH NAME
dragonn\-train.toml \- experiments of dragonn\-train
.SH DESCRIPTION
A config is a TOML file. Keys that it leaves out have their defaults; an unknown key is an error. The option
\fB\-\-set\fR of \fBdragonn\-train\fR(1) sets one as \fItable.key=value\fR, and \fB\-\-print\-config\fR prints all of a
config, resolved. A table that names a component (\fBmodel\fR, \fBdata\fR, \fBoptimizer\fR, \fBschedule\fR) also takes
that component's settings; settings of the parts of \fBcompression\fR are in tables of their names.
.SH KEYS
)";

constexpr const char* kFoot = R"(.SH SEE ALSO
\fBdragonn\-train\fR(1)
)";

std::string man_key(const std::string& name, const std::string& text) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(name), roff(text));
}

std::string heading(const std::string& text) {
  return fmt::format(".SS \"{}\"\n", roff(text));
}

std::string fixed_keys(const ConfigSchema& schema) {
  std::string text, table = "none yet";
  for (const ConfigKey& key : schema.keys) {
    if (key.table != table) text += heading(key.table.empty() ? "Above all tables" : fmt::format("[{}]", key.table));
    table = key.table;
    const std::string fallback =
        key.required ? "required" : fmt::format("default {}", dragonn::to_toml(key.spec.default_value));
    text += man_key(key.spec.name, fmt::format("{}; {}; {}", key.spec.help, key.describe_type(), fallback));
  }
  return text;
}

std::string component_settings(const ConfigSchema& schema) {
  std::string text;
  for (const ComponentSlot& slot : schema.components) {
    for (const auto& [name, specs] : slot.registered) {
      if (specs->empty()) continue;
      text += heading(fmt::format("[{}] with {} = {}", slot.table_of(name), slot.key, name));
      for (const SettingSpec& spec : *specs) {
        text += man_key(spec.name, fmt::format("{}; {}; default {}", spec.help, spec.describe_type(),
                                               dragonn::to_toml(spec.default_value)));
      }
    }
  }
  return text;
}

void add_words(const std::string& path, const SettingSpec& spec, std::set<std::string>& words) {
  words.insert(path + "=");
  for (const std::string& choice : spec.choices) words.insert(fmt::format("{}={}", path, choice));
  if (!std::holds_alternative<bool>(spec.default_value)) return;
  for (const char* value : {"true", "false"}) words.insert(fmt::format("{}={}", path, value));
}

}  // namespace

std::string config_man_page() {
  const ConfigSchema schema = config_schema();
  return fmt::format(
      ".\\\" Generated from the program's declared keys.\n"
      ".TH DRAGONN\\-TRAIN.TOML 5 \"\" \"dragonn {}\" \"File Formats\"\n{}{}.SH SETTINGS OF COMPONENTS\n{}{}",
      roff(version()), kHead, fixed_keys(schema), component_settings(schema), kFoot);
}

std::vector<std::string> config_words() {
  const ConfigSchema schema = config_schema();
  std::set<std::string> words;
  for (const ConfigKey& key : schema.keys) add_words(key.path(), key.spec, words);
  for (const ComponentSlot& slot : schema.components) {
    for (const auto& [name, specs] : slot.registered) {
      for (const SettingSpec& spec : *specs) add_words(slot.table_of(name) + "." + spec.name, spec, words);
    }
  }
  return {words.begin(), words.end()};
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/config/config_keys.h"

#include <algorithm>
#include <concepts>
#include <limits>
#include <utility>

#include "comm/network_model.h"
#include "trainer/config/methods.h"

namespace dragonn::trainer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The valid values of a key, as far as its type does not tell.
struct KeyLimits {
  double minimum = -kInfinity;  ///< of a number, also one in place of a word
  double maximum = kInfinity;
  bool exclusive_minimum = false;
  std::vector<std::string> words = {};  ///< all words of a string; for a component those beside the registered names
};

template <class T>
concept IsComponent = std::derived_from<T, Component>;
template <class T>
concept IsWordOr = requires {
  typename T::Word;
  typename T::Number;
};

/// Returns the value of a config's member, as a file has it.
template <class T>
SettingValue read(const T& member) {
  if constexpr (Choice<T>) {
    return name_of(member);
  } else if constexpr (IsComponent<T>) {
    return member.name;
  } else if constexpr (IsWordOr<T>) {
    return member.number ? SettingValue(*member.number) : read(member.word);
  } else {
    return member;
  }
}

/// Sets a config's member. @param value a valid one.
template <class T>
void write(const SettingValue& value, T& member) {
  if constexpr (Choice<T>) {
    member = choice_of<T>("word", std::get<std::string>(value));
  } else if constexpr (IsComponent<T>) {
    member.name = std::get<std::string>(value);
  } else if constexpr (IsWordOr<T>) {
    const auto* number = std::get_if<typename T::Number>(&value);
    member.number = number != nullptr ? std::optional(*number) : std::nullopt;
    if (number == nullptr) write(value, member.word);
  } else {
    member = std::get<T>(value);
  }
}

/// Declares a key. @param access returns a reference to the key's member of a Config.
template <class Access>
void add_key(ConfigSchema& schema, const char* table, const char* name, Access access, const char* help, KeyRole role,
             KeyLimits limits) {
  using Member = std::remove_cvref_t<decltype(access(std::declval<Config&>()))>;
  const Config defaults;
  ConfigKey key{table,
                {name, read(access(defaults)), help, limits.minimum, limits.maximum, limits.exclusive_minimum,
                 std::move(limits.words)},
                role};
  key.get = [access](const Config& config) { return read(access(config)); };
  key.set = [access](Config& config, const SettingValue& value) { write(value, access(config)); };
  if constexpr (Choice<Member>) key.spec.choices = choice_names<Member>();
  if constexpr (IsWordOr<Member>) {
    key.alternative = key.spec;
    key.alternative->default_value = typename Member::Number{};
    key.spec.choices = choice_names<typename Member::Word>();
  }
  if constexpr (IsComponent<Member>) {
    key.required = access(defaults).name.empty();
    ComponentSlot& slot = schema.components.emplace_back(ComponentSlot{table, name, access, {}});
    const auto& registry = Registry<typename Member::Entry>::instance();
    for (const std::string& registered : registry.names()) {
      slot.registered[registered] = &registry.at(registered).settings;
      key.spec.choices.push_back(registered);
    }
  }
  schema.keys.push_back(std::move(key));
}

std::vector<std::string> network_words() {
  std::vector<std::string> words = comm::network_preset_names();
  words.insert(words.begin(), "none");
  return words;
}

/// Words of other programs, and their names here.
constexpr std::pair<const char*, const char*> kOtherWords[] = {{"lr", "learning_rate"},
                                                               {"eta", "learning_rate"},
                                                               {"step_size", "learning_rate"},
                                                               {"bs", "batch_size"},
                                                               {"batch", "batch_size"},
                                                               {"mom", "momentum"},
                                                               {"wd", "weight_decay"},
                                                               {"l2", "weight_decay"},
                                                               {"arch", "model"},
                                                               {"accum", "gradient_accumulation"},
                                                               {"accumulation", "gradient_accumulation"},
                                                               {"smoothing", "label_smoothing"},
                                                               {"compressor", "method"},
                                                               {"compression", "method"},
                                                               {"ratio", "density"},
                                                               {"sparsity", "density"},
                                                               {"bandwidth", "gbps"},
                                                               {"latency", "latency_us"},
                                                               {"nodes", "workers"},
                                                               {"world_size", "workers"},
                                                               {"ranks", "workers"},
                                                               {"threads", "threads_per_worker"},
                                                               {"timeout", "timeout_s"},
                                                               {"gpu", "cuda"},
                                                               {"nvidia", "cuda"}};

/// The shortest name that is searched in others: shorter ones occur in too many.
constexpr std::size_t kShortestPart = 3;

template <class Property>
std::optional<std::string> first_of(const std::vector<std::string>& candidates, const Property& property) {
  const auto found = std::ranges::find_if(candidates, property);
  return found == candidates.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

SettingValue ConfigKey::convert(SettingValue value) const {
  const bool is_alternative =
      alternative && type_name(value) != type_name(spec.default_value) && !std::holds_alternative<bool>(value);
  return (is_alternative ? *alternative : spec).convert(path(), std::move(value));
}

std::string ConfigKey::describe_type() const {
  return alternative ? spec.describe_type() + "; or " + alternative->describe_type() : spec.describe_type();
}

std::vector<ConfigKey> ComponentSlot::settings(const std::string& name) const {
  std::vector<ConfigKey> keys;
  const auto found = registered.find(name);
  if (found == registered.end()) return keys;
  for (const SettingSpec& spec : *found->second) {
    ConfigKey& added = keys.emplace_back(ConfigKey{table_of(name), spec});
    added.get = [*this, setting = spec.name](const Config& config) { return in(config).settings.value(setting); };
    added.set = [*this, setting = spec.name, name](Config& config, const SettingValue& value) {
      if (in(config).name == name) component(config).settings.set(setting, value);
    };
  }
  return keys;
}

ConfigSchema config_schema() {
  ConfigSchema schema;
  // A table is a block, in which `place` finds its struct.
#define PLACE(...) [__VA_ARGS__](auto& config) -> auto&
#define TABLE_BLOCK(path_text, member)  \
  {                                     \
    const char* const path = path_text; \
    const auto place = PLACE() {        \
      return member;                    \
    };
#define TOP_TABLE(type) TABLE_BLOCK("", config)
#define TABLE(type, name) TABLE_BLOCK(#name, config.name)
#define SUBTABLE(type, parent, name) TABLE_BLOCK(#parent "." #name, config.parent.name)
#define COMPONENT_TABLE(type, Entry, name, initial, help) \
  TABLE(type, name)                                       \
  add_key(schema, path, "name", place, help, KeyRole::kResult, {});
#define DECLARE(role, name, help, ...) \
  add_key(schema, path, #name, PLACE(place) { return place(config).name; }, help, role, {__VA_ARGS__});
#define KEY(type, name, initial, ...) DECLARE(KeyRole::kResult, name, __VA_ARGS__)
#define RUNTIME_KEY(type, name, initial, ...) DECLARE(KeyRole::kRuntime, name, __VA_ARGS__)
#define END_TABLE }
#include "trainer/config/config_keys.def"
#undef DECLARE
#undef TABLE_BLOCK
#undef PLACE
  return schema;
}

std::optional<std::string> likely_name(const std::string& name, const std::vector<std::string>& candidates) {
  for (const auto& [other, ours] : kOtherWords) {
    if (name == other && std::ranges::count(candidates, ours) > 0) return ours;
  }
  if (const auto nearest = nearest_name(name, candidates)) return nearest;
  if (name.size() < kShortestPart) return std::nullopt;
  return first_of(candidates, [&](const std::string& other) { return other.find(name) != std::string::npos; });
}

std::optional<std::string> likely_table(const std::string& name, const std::vector<std::string>& tables) {
  if (const auto likely = likely_name(name, tables)) return likely;
  return first_of(tables,
                  [&](const std::string& table) { return table.size() >= kShortestPart && name.starts_with(table); });
}

std::optional<std::string> likely_key(const std::string& name) {
  const std::vector<ConfigKey> keys = config_schema().keys;
  std::vector<std::string> names;
  for (const ConfigKey& key : keys) names.push_back(key.spec.name);
  const std::optional<std::string> meant = std::ranges::count(names, name) > 0 ? name : likely_name(name, names);
  if (!meant) return std::nullopt;
  return keys[static_cast<std::size_t>(std::ranges::find(names, *meant) - names.begin())].path();
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/config/config.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/file.h"
#include "core/units_text.h"
#include "trainer/config/config_check.h"
#include "trainer/config/config_hint.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/methods.h"
#include "trainer/config/toml_config.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kCompression = "compression";
constexpr const char* kAuto = "auto";

const SettingSpec* find_spec(const SettingSpecs& specs, const std::string& name) {
  const auto found = std::ranges::find(specs, name, &SettingSpec::name);
  return found == specs.end() ? nullptr : &*found;
}

/// "; did you mean 'resnet20'?", or nothing.
std::string hint(const std::optional<std::string>& nearest) {
  return nearest ? fmt::format("; did you mean '{}'?", *nearest) : "";
}

std::string text_or_empty(const SettingValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "" : *text;
}

/// "file:line:column: key = value: ", or the override, which says the rest itself.
std::string place(const RawKey& raw) {
  if (raw.is_override) return raw.origin + ": ";
  return fmt::format("{}: {} = {}: ", raw.origin, raw.path(), dragonn::to_toml(raw.value));
}

/// A hint ends its sentence; without one a semicolon does.
std::string closed(const std::string& hint_text) {
  return hint_text.empty() ? ";" : hint_text;
}

/// Consumes raw keys into a Config: fixed keys first, since they name the components whose keys come next.
class Resolver {
 public:
  /// @param complete required keys must be there; else a component without a name stays without settings.
  explicit Resolver(RawConfig raw, bool complete = true) : raw_(std::move(raw)), complete_(complete) {}

  Config resolve() {
    forget_replaced_method();
    for (const ConfigKey& key : keys_) read_fixed(key);
    for (const ComponentTable& table : component_tables()) read_component(table);
    resolve_method();
    read_compression_tables();
    refuse_the_rest();
    return std::move(config_);
  }

 private:
  RawKey* find(const std::string& path) {
    const auto found = std::ranges::find(raw_.keys, path, &RawKey::path);
    return found == raw_.keys.end() ? nullptr : &*found;
  }
  void erase(const std::string& path) {
    std::erase_if(raw_.keys, [&](const RawKey& key) { return key.path() == path; });
  }

  /// When --set chooses another method, what the file says because of its own method goes with that method: written-out
  /// parts that are the old method's, and all of them if one sparsifies and the other quantizes or is dense.
  void forget_replaced_method() {
    const RawKey* method = find("compression.method");
    if (method == nullptr || !method->replaced) return;
    const std::string new_name = text_or_empty(method->value), old_name = text_or_empty(*method->replaced);
    if (old_name == new_name) return;
    for (const std::string& name : {old_name, new_name}) {
      if (!std::ranges::count(method_names(), name)) return;  // read_fixed says so
    }
    const Method old_method = find_method(old_name);
    const Method new_method = find_method(new_name);
    const bool dense = new_method.is_dense() || old_method.is_dense();
    const bool quantizer = new_method.quantizer != "none" || old_method.quantizer != "none";
    Replaced replaced{method->origin, old_name};
    forget(replaced, dense || quantizer, "sparsifier", old_method.sparsifier);
    forget(replaced, dense || quantizer, "quantizer", old_method.quantizer);
    forget(replaced, dense || quantizer, "collective", old_method.collective);
    // A memory goes with any sparsifier.
    forget(replaced, new_method.is_dense() || quantizer, "memory", old_method.is_dense() ? old_method.memory : "");
    tell(replaced);
  }

  /// A name instead of which --set gave another.
  struct Replaced {
    std::string by;                         ///< "--set compression.method=topk"
    std::string old_name;                   ///< the file's, or the default
    std::vector<std::string> dropped = {};  ///< "optimizer.momentum = 0.9", ...: what the file says because of it
  };

  void forget(Replaced& replaced, bool always, const char* name, const std::string& old_value) {
    const std::string path = fmt::format("{}.{}", kCompression, name);
    const RawKey* key = find(path);
    if (key == nullptr || key->is_override) return;
    if (!always && key->value != SettingValue(old_value)) return;
    drop(replaced, *key);
    erase(path);
  }

  /// Words that choose nothing are no loss.
  static void drop(Replaced& replaced, const RawKey& key) {
    const std::string word = text_or_empty(key.value);
    if (word == kAuto || word == "none") return;
    replaced.dropped.push_back(fmt::format("{} = {}", key.path(), dragonn::to_toml(key.value)));
  }

  void tell(const Replaced& replaced) {
    if (replaced.dropped.empty()) return;
    config_.notes.push_back(fmt::format("{} drops what the config says for \"{}\": {}", replaced.by, replaced.old_name,
                                        fmt::join(replaced.dropped, ", ")));
  }

  void read_fixed(const ConfigKey& key) {
    const RawKey* raw = find(key.path());
    if (raw == nullptr) {
      if (!key.required || !complete_) return;
      throw ConfigError(fmt::format("{} is missing: expected {}", key.path(), key.describe_type()));
    }
    if (key.spec.name == "name" && raw->is_override) {
      replaced_components_[key.table] = {raw->origin, text_or_empty(raw->replaced.value_or(key.get(config_)))};
    }
    key.set(config_, convert(*raw, key.spec, key.describe_type(),
                             [&](SettingValue value) { return key.convert(std::move(value)); }));
    erase(key.path());
  }

  /// Runs a conversion; its error gets the place, what would be valid, and the nearest valid word.
  template <class Conversion>
  SettingValue convert(const RawKey& raw, const SettingSpec& spec, const std::string& valid, Conversion conversion) {
    SettingValue value = raw.value;
    // A path or name typed on the command line may look like a number.
    if (raw.is_override && std::holds_alternative<std::string>(spec.default_value) && spec.choices.empty()) {
      if (!std::holds_alternative<std::string>(value)) value = raw.text;
    }
    try {
      return conversion(value);
    } catch (const ConfigError&) {
      throw ConfigError(
          fmt::format("{}expected {}{}", place(raw), valid, hint(likely_name(text_or_empty(value), spec.choices))));
    }
  }

  void read_setting(const RawKey& raw, const SettingSpec& spec, Settings& settings) {
    settings.set(spec.name, convert(raw, spec, spec.describe_type(),
                                    [&](SettingValue value) { return spec.convert(raw.path(), std::move(value)); }));
  }

  void read_component(const ComponentTable& table) {
    Component& component = table.component(config_);
    if (component.name.empty() && !complete_) return;
    const SettingSpecs* specs = table.find(component.name);
    DRAGONN_CHECK(specs != nullptr, "[{}] name = {} is not registered", table.table, component.name);
    component.settings = Settings(*specs);
    std::erase_if(raw_.keys, [&](const RawKey& raw) {
      if (raw.table != table.table) return false;
      const SettingSpec* spec = find_spec(*specs, raw.name);
      if (spec != nullptr) read_setting(raw, *spec, component.settings);
      if (spec != nullptr) return true;
      if (!belongs_to_replaced(table, raw)) return false;
      drop(replaced_components_.at(table.table), raw);
      return true;
    });
    if (replaced_components_.contains(table.table)) tell(replaced_components_.at(table.table));
  }

  /// With `--set optimizer.name=adam`, keys that the file gives for its own optimizer are not meant.
  bool belongs_to_replaced(const ComponentTable& table, const RawKey& raw) const {
    const auto old = replaced_components_.find(table.table);
    if (raw.is_override || old == replaced_components_.end()) return false;
    const SettingSpecs* specs = table.find(old->second.old_name);
    return specs != nullptr && find_spec(*specs, raw.name) != nullptr;
  }

  void resolve_method() {
    CompressionConfig& compression = config_.compression;
    const Method method = find_method(compression.method);
    const auto fill = [](Component& component, const std::string& choice) {
      if (component.name == kAuto) component.name = choice;
    };
    fill(compression.sparsifier, method.sparsifier);
    fill(compression.quantizer, method.quantizer);
    fill(compression.collective, method.collective);
    fill(compression.memory, has_momentum(config_) ? method.memory_with_momentum : method.memory);
    if (compression.is_dense()) compression.memory.name = method.memory;
    if (!compression.bucket) compression.bucket = method.bucket;
    if (compression.include_vectors == IncludeVectors::kAuto) {
      const bool is_model = compression.bucket == BucketRules::Grouping::kModel;
      compression.include_vectors = is_model ? IncludeVectors::kYes : IncludeVectors::kNo;
    }
  }

  /// [compression.<name>] goes to every part of that name that declares the key. Tables of parts that are not in use
  /// are checked all the same, so that a file can hold the settings of several methods.
  void read_compression_tables() {
    const std::vector<ComponentTable> parts = compression_parts();
    for (const ComponentTable& part : parts) {
      Component& component = part.component(config_);
      if (const SettingSpecs* specs = part.find(component.name)) component.settings = Settings(*specs);
    }
    const std::string prefix = std::string(kCompression) + ".";
    std::erase_if(raw_.keys, [&](const RawKey& raw) {
      if (!raw.table.starts_with(prefix)) return false;
      const std::string name = raw.table.substr(prefix.size());
      bool declared = false;
      for (const ComponentTable& part : parts) {
        const SettingSpecs* specs = part.find(name);
        const SettingSpec* spec = specs != nullptr ? find_spec(*specs, raw.name) : nullptr;
        if (spec == nullptr) continue;
        declared = true;
        Component& component = part.component(config_);
        Settings unused(*specs);
        read_setting(raw, *spec, component.name == name ? component.settings : unused);
      }
      return declared;
    });
    // Without a selection the collective has nothing to be set; for dense ones comm.dense_algorithm says it all.
    if (!config_.compression.selects()) config_.compression.collective.settings = Settings();
  }

  /// Names of all tables that the config may have.
  std::vector<std::string> valid_tables() const {
    std::vector<std::string> names;
    for (const ConfigKey& key : keys_) {
      if (!key.table.empty() && (names.empty() || names.back() != key.table)) names.push_back(key.table);
    }
    std::set<std::string> parts;
    for (const ComponentTable& part : compression_parts()) {
      for (const std::string& name : part.names()) parts.insert(fmt::format("{}.{}", kCompression, name));
    }
    names.insert(names.end(), parts.begin(), parts.end());
    return names;
  }

  /// Keys that a table may have now that its component is known.
  std::vector<std::string> valid_keys(const std::string& table) {
    std::vector<std::string> names;
    const auto add = [&](const SettingSpecs* specs) {
      if (specs == nullptr) return;
      for (const SettingSpec& spec : *specs) {
        if (!std::ranges::count(names, spec.name)) names.push_back(spec.name);
      }
    };
    for (const ConfigKey& key : keys_) {
      if (key.table == table) names.push_back(key.spec.name);
    }
    for (const ComponentTable& component : component_tables()) {
      if (component.table == table) add(component.find(component.component(config_).name));
    }
    for (const ComponentTable& part : compression_parts()) {
      if (table.starts_with("compression.")) add(part.find(table.substr(table.find('.') + 1)));
    }
    return names;
  }

  void refuse_the_rest() {
    const std::vector<std::string> tables = valid_tables();
    for (const RawTable& table : raw_.tables) {
      if (!std::ranges::count(tables, table.name)) refuse_table(table.name, table.origin);
    }
    if (!raw_.keys.empty()) refuse_key(raw_.keys.front());
  }

  [[noreturn]] void refuse_table(const std::string& name, const std::string& origin) {
    const std::vector<std::string> tables = valid_tables();
    throw ConfigError(fmt::format("{}: unknown table [{}]{} valid: {}", origin, name,
                                  closed(hint(nearest_name(name, tables))), fmt::join(tables, ", ")));
  }

  [[noreturn]] void refuse_key(const RawKey& raw) {
    const std::vector<std::string> tables = valid_tables();
    if (!raw.table.empty() && !std::ranges::count(tables, raw.table)) refuse_table(raw.table, raw.origin);
    if (std::ranges::count(tables, raw.path())) {
      throw ConfigError(fmt::format("{}: {} is a table of keys: {}", raw.origin, raw.path(),
                                    fmt::join(valid_keys(raw.path()), ", ")));
    }
    const std::vector<std::string> valid = valid_keys(raw.table);
    std::optional<std::string> nearest = likely_name(raw.name, valid);
    if (nearest && !raw.table.empty()) nearest = raw.table + "." + *nearest;
    if (!nearest) nearest = likely_key(raw.name);
    const std::string where = raw.table.empty() ? "at the top" : fmt::format("in [{}]", raw.table);
    throw ConfigError(
        fmt::format("{}unknown key{} valid {}: {}", place(raw), closed(hint(nearest)), where, fmt::join(valid, ", ")));
  }

  RawConfig raw_;
  bool complete_;
  Config config_;
  std::map<std::string, Replaced> replaced_components_;  // by table
  const std::vector<ConfigKey> keys_ = config_keys();
};

}  // namespace

FusionRules CompressionConfig::fusion_rules() const {
  return {.bytes = static_cast<std::size_t>(fusion_mib * (1 << 20)), .overlaps = overlap};
}

BucketRules CompressionConfig::bucket_rules() const {
  BucketRules rules;
  rules.grouping = bucket.value();
  rules.bytes = static_cast<std::size_t>(bucket_mib * (1 << 20));
  rules.compress = !is_dense();
  rules.include_vectors = include_vectors == IncludeVectors::kYes;
  rules.minimum_size = static_cast<std::size_t>(minimum_size);
  return rules;
}

Backend CommConfig::meets_by() const {
  if (backend != Backend::kNccl) return backend;
  return bootstrap == Bootstrap::kMpi ? Backend::kMpi : Backend::kTcp;
}

std::optional<comm::NetworkModel> NetworkConfig::modelled() const {
  if (model == NetworkKind::kNone) return std::nullopt;
  comm::NetworkModel network = preset == "none" ? comm::NetworkModel{} : comm::network_preset(preset);
  if (latency_us) network.latency_seconds = *latency_us / 1e6;
  if (gbps) network.bytes_per_second = *gbps * 1e9 / 8;
  return network;
}

std::string NetworkConfig::describe() const {
  const auto network = modelled();
  if (!network) return "";
  const bool is_preset = preset != "none" && !latency_us && !gbps;
  return network_text(network->gbps(), network->latency_us(), is_preset ? preset : "");
}

Config parse_config(const std::string& text, const std::string& name, std::span<const std::string> overrides) {
  RawConfig raw = read_toml(text, name);
  for (const std::string& assignment : overrides) apply_override(raw, assignment);
  Config config = Resolver(std::move(raw)).resolve();
  try {
    check_config(config);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", name, error.what()));
  }
  return config;
}

Config default_config(std::span<const std::string> overrides) {
  RawConfig raw;
  for (const std::string& assignment : overrides) apply_override(raw, assignment);
  return Resolver(std::move(raw), /*complete=*/false).resolve();
}

Config load_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return parse_config(read_text_file(path), path.string(), overrides);
}

}  // namespace dragonn::trainer

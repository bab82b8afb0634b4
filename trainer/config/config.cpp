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

#include "comm/sparse/sparse_collective.h"
#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/exchange_config.h"
#include "trainer/config/toml_config.h"

namespace dragonn::trainer {
namespace {

constexpr const char* kAuto = "auto";
/// The codec of indices beside a lossy codec of values.
constexpr const char* kShortIndices = "smallest";

/// Returns "; did you mean 'resnet20'?", or `otherwise`.
std::string hint(const std::optional<std::string>& nearest, const char* otherwise = "") {
  return nearest ? fmt::format("; did you mean '{}'?", *nearest) : otherwise;
}

std::string text_or_empty(const SettingValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "" : *text;
}

/// Returns the table and the name of "update.outer.momentum".
std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

/// Returns "file:line:column: key = value: ", or the override, which says the rest itself.
std::string place(const RawKey& raw) {
  if (raw.is_override) return raw.origin + ": ";
  return fmt::format("{}: {} = {}: ", raw.origin, excerpt(raw.path()), excerpt(dragonn::to_toml(raw.value)));
}

/// Returns the value in the key's type. An error gets the place, what would be valid, and the nearest valid word.
SettingValue convert(const RawKey& raw, const ConfigKey& key) {
  SettingValue value = raw.value;
  // A path or name typed on the command line may look like a number.
  const bool is_any_text = std::holds_alternative<std::string>(key.spec.default_value) && key.spec.choices.empty();
  if (raw.is_override && is_any_text && !std::holds_alternative<std::string>(value)) value = raw.text;
  try {
    return key.convert(value);
  } catch (const ConfigError&) {
    throw ConfigError(fmt::format("{}expected {}{}", place(raw), key.describe_type(),
                                  hint(likely_name(text_or_empty(value), key.spec.choices))));
  }
}

/// Holds a name that --set replaced, and what the file says because of it.
struct Replaced {
  std::string by;                         ///< "--set compression.method=topk"
  std::string old_name;                   ///< the file's, or the default
  std::vector<std::string> dropped = {};  ///< "optimizer.momentum = 0.9", ...
};

/// Moves raw keys into a Config: fixed keys first, since they name the components whose keys come next.
class Resolver {
 public:
  /// @param complete required keys must be there; otherwise a component without a name stays without settings.
  Resolver(RawConfig raw, bool complete) : raw_(std::move(raw)), complete_(complete) {}

  Config resolve() {
    for (const RawKey& key : raw_.keys) {
      if (key.old_path.empty()) continue;
      config_.notes.push_back(fmt::format("{}: {} is called {} now", key.origin, key.old_path, key.path()));
    }
    forget_replaced_method();
    for (const ConfigKey& key : schema_.keys) read(key);
    read_components(/*parts=*/false);
    resolve_method();
    read_components(/*parts=*/true);
    resolve_codec();
    // Without a selection the collective has no settings that apply; comm.dense_algorithm decides for dense ones.
    if (!config_.compression.selects()) config_.compression.collective.settings = Settings();
    const std::vector<std::string> tables = valid_tables();
    for (const RawTable& table : raw_.tables) refuse_unknown_table(table.name, table.origin, tables);
    const auto left = std::ranges::find(raw_.keys, false, &RawKey::is_taken);
    if (left != raw_.keys.end()) refuse_key(*left, tables);
    return std::move(config_);
  }

 private:
  RawKey* find(const std::string& path) {
    const auto found = std::ranges::find(raw_.keys, path, &RawKey::path);
    return found == raw_.keys.end() ? nullptr : &*found;
  }

  /// Forgets what the file says because of its own method where --set chooses another: written-out parts that are the
  /// old method's, and all of them if one sparsifies and the other quantizes or is dense. A collective stays only if
  /// both methods have the same one by themselves, and it takes what the new one selects. A codec stays if what the new
  /// method sends can be in it.
  void forget_replaced_method() {
    const RawKey* method = find("compression.method");
    if (method == nullptr || !method->replaced || method->value == *method->replaced) return;
    Replaced replaced{method->origin, text_or_empty(*method->replaced)};
    const std::vector<std::string> names = method_names();
    for (const std::string& name : {replaced.old_name, text_or_empty(method->value)}) {
      if (!std::ranges::count(names, name)) return;  // read says so
    }
    const Method before = find_method(replaced.old_name), after = find_method(text_or_empty(method->value));
    const bool quantizes = before.quantizer != "none" || after.quantizer != "none";
    const bool other_kind = quantizes || before.is_dense() || after.is_dense();
    const auto forget = [&](bool always, const char* name, const std::string& old_value) {
      const RawKey* const key = find(fmt::format("compression.{}", name));
      if (key == nullptr || key->is_override) return;
      if (always || key->value == SettingValue(old_value)) drop(*key, replaced);
    };
    forget(other_kind, "sparsifier", before.sparsifier);
    forget(other_kind, "quantizer", before.quantizer);
    const bool other_lists = other_kind || before.collective != after.collective || !takes_selection(after);
    forget(other_lists, "collective", before.collective);
    forget(quantizes || after.is_dense(), "codec.indices", "");
    forget(quantizes || !sends_values(after), "codec.values", "");
    // A memory goes with any sparsifier.
    forget(quantizes || after.is_dense(), "memory", before.is_dense() ? before.memory : "");
    forget(after.is_dense(), "transform", name_of(before.transform));
    tell(replaced);
  }

  /// Returns whether the collective of the file takes what a sparsifying method selects; true if it is no such name.
  bool takes_selection(const Method& method) {
    const auto& collectives = Registry<comm::SparseCollectiveEntry>::instance();
    const RawKey* const chosen = find("compression.collective");
    const std::string collective = chosen == nullptr ? "" : text_or_empty(chosen->value);
    if (!collectives.contains(collective)) return true;
    const auto& refuses = collectives.at(collective).refuses;
    const auto& sparsifier = Registry<compress::SparsifierEntry>::instance().at(method.sparsifier);
    return !refuses || refuses(sparsifier.traits(Settings(sparsifier.settings))).empty();
  }

  /// Returns whether a collective that is not the file's own can send values in the file's codec; true if there is no
  /// such pair.
  bool sends_values(const Method& method) {
    const auto& collectives = Registry<comm::SparseCollectiveEntry>::instance();
    const auto& codecs = Registry<codec::ValueCodecEntry>::instance();
    const RawKey* const chosen = find("compression.collective");
    const RawKey* const values = find("compression.codec.values");
    if (values == nullptr || (chosen != nullptr && !chosen->is_override)) return true;
    const std::string collective = chosen == nullptr ? method.collective : text_or_empty(chosen->value);
    const std::string codec = text_or_empty(values->value);
    if (!collectives.contains(collective) || !codecs.contains(codec)) return true;
    return collectives.at(collective).sends(codecs.at(codec));
  }

  void tell(const Replaced& replaced) {
    if (replaced.dropped.empty()) return;
    config_.notes.push_back(fmt::format("{} drops what the config says for \"{}\": {}", replaced.by, replaced.old_name,
                                        fmt::join(replaced.dropped, ", ")));
  }

  void drop(const RawKey& key, Replaced& replaced) {
    const std::string word = text_or_empty(key.value);
    if (word != kAuto && word != "none")  // words that choose nothing are no loss
      replaced.dropped.push_back(fmt::format("{} = {}", key.path(), excerpt(dragonn::to_toml(key.value))));
    raw_.keys.erase(raw_.keys.begin() + (&key - raw_.keys.data()));
  }

  void read(const ConfigKey& key) {
    const std::string path = key.path();
    const auto [table, name] = split(path);
    std::vector<std::string>& known = known_[table];
    if (!std::ranges::count(known, name)) known.push_back(name);
    if (RawKey* const raw = find(path)) {
      key.set(config_, convert(*raw, key));
      raw->is_taken = true;
    } else if (key.required && complete_) {
      throw ConfigError(fmt::format("{} is missing: expected {}", key.path(), key.describe_type()));
    }
  }

  void read_components(bool parts) {
    for (const ComponentSlot& slot : schema_.components) {
      if (slot.is_part() != parts) continue;
      Component& component = slot.component(config_);
      for (const auto& [name, specs] : slot.registered) {
        const bool is_used = name == component.name;
        if (is_used) component.settings = Settings(*specs);
        // Parts that are not in use are checked all the same, so that a file can hold the settings of several methods.
        if (!is_used && !parts) continue;
        for (const ConfigKey& key : slot.settings(name)) read(key);
      }
      if (!parts) forget_replaced_component(slot);
    }
  }

  /// Forgets the keys that the file gives for its own optimizer, with `--set optimizer.name=adam`; likewise others.
  void forget_replaced_component(const ComponentSlot& slot) {
    const RawKey* const chosen = find(slot.table + "." + slot.key);
    if (chosen == nullptr || !chosen->is_override) return;
    const Config defaults;
    Replaced replaced{chosen->origin, text_or_empty(chosen->replaced.value_or(slot.in(defaults).name))};
    for (const ConfigKey& key : slot.settings(replaced.old_name)) {
      const RawKey* const raw = find(key.path());
      if (raw != nullptr && !raw->is_override && !raw->is_taken) drop(*raw, replaced);
    }
    tell(replaced);
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
    // Dense exchanges leave nothing for a memory, unless values are rounded.
    const bool rounds = compression.coding().is_lossy();
    if (compression.is_dense() && !rounds) compression.memory.name = "none";
    if (compression.is_dense() && rounds) fill(compression.memory, "residual");
    const bool exchanges_momentum = config_.has_momentum() && !config_.update.steps_locally();
    fill(compression.memory, exchanges_momentum ? method.memory_with_momentum : method.memory);
    if (compression.bucket.is(BucketScope::kAuto)) compression.bucket = method.bucket;
    if (compression.transform == Transform::kAuto) compression.transform = method.transform;
    if (compression.include_vectors == IncludeVectors::kAuto) {
      const bool is_model = compression.bucket.is(BucketScope::kModel);
      compression.include_vectors = is_model ? IncludeVectors::kYes : IncludeVectors::kNo;
    }
  }

  /// Chooses the codec of indices beside that of values. The settings of the other parts say whether any are sent.
  void resolve_codec() {
    const CompressionConfig& compression = config_.compression;
    std::string& indices = config_.compression.codec.indices.name;
    if (indices != kAuto) return;
    const bool shortens = compression.codec.values.name != codec::kRawValues && compression.selects() &&
                          exchange::sends_indices(exchange_rules(config_));
    indices = shortens ? kShortIndices : codec::kRawIndices;
  }

  std::vector<std::string> valid_tables() const {
    std::vector<std::string> names;
    for (const ConfigKey& key : schema_.keys) {
      if (!key.table.empty() && (names.empty() || names.back() != key.table)) names.push_back(key.table);
    }
    std::set<std::string> parts;
    for (const ComponentSlot& slot : schema_.components) {
      for (const auto& [name, specs] : slot.registered) {
        if (slot.is_part()) parts.insert(slot.table_of(name));
      }
    }
    for (const auto& [table, keys] : known_) {
      if (table.find('.') != std::string::npos && !std::ranges::count(names, table)) parts.insert(table);
    }
    names.insert(names.end(), parts.begin(), parts.end());
    return names;
  }

  static void refuse_unknown_table(const std::string& name, const std::string& origin,
                                   const std::vector<std::string>& tables) {
    if (std::ranges::count(tables, name)) return;
    if (const auto nearest = likely_table(name, tables)) {
      throw ConfigError(fmt::format("{}: unknown table [{}]{}", origin, excerpt(name), hint(nearest)));
    }
    std::vector<std::string> top = tables;
    std::erase_if(top, [](const std::string& table) { return table.find('.') != std::string::npos; });
    throw ConfigError(fmt::format("{}: unknown table [{}]; valid: {}", origin, excerpt(name), fmt::join(top, ", ")));
  }

  [[noreturn]] void refuse_key(const RawKey& raw, const std::vector<std::string>& tables) {
    if (!raw.table.empty()) refuse_unknown_table(raw.table, raw.origin, tables);
    if (std::ranges::count(tables, raw.path())) {
      throw ConfigError(
          fmt::format("{}: {} is a table of keys: {}", raw.origin, raw.path(), fmt::join(known_[raw.path()], ", ")));
    }
    const std::vector<std::string>& valid = known_[raw.table];
    std::optional<std::string> nearest = likely_name(raw.name, valid);
    if (nearest && !raw.table.empty()) nearest = raw.table + "." + *nearest;
    if (!nearest) nearest = likely_key(raw.name);
    const std::string where = raw.table.empty() ? "at the top" : fmt::format("in [{}]", raw.table);
    throw ConfigError(
        fmt::format("{}unknown key{} valid {}: {}", place(raw), hint(nearest, ";"), where, fmt::join(valid, ", ")));
  }

  RawConfig raw_;
  bool complete_;
  Config config_;
  std::map<std::string, std::vector<std::string>> known_;  // keys that were looked for, by table
  const ConfigSchema schema_ = config_schema();
};

}  // namespace

Config resolve_config(RawConfig raw, std::span<const std::string> overrides, bool complete) {
  for (const std::string& assignment : overrides) apply_override(raw, assignment);
  return Resolver(std::move(raw), complete).resolve();
}

}  // namespace dragonn::trainer

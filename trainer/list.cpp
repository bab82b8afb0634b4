// SPDX-License-Identifier: MIT
#include <algorithm>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codec/indices/index_codec.h"
#include "codec/values/value_codec.h"
#include "comm/network_model.h"
#include "comm/sparse/sparse_collective.h"
#include "compress/density_schedule.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "core/units_text.h"
#include "data/dataset.h"
#include "layers/network.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "trainer/command_line.h"
#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"
#include "trainer/update/update_scheme.h"

namespace dragonn::trainer {
namespace {

constexpr std::size_t kColumns = 80;

/// The text of `--list KIND NAME`.
struct Description {
  std::string summary;
  std::string source = {};
  std::string traffic = {};
  std::string chosen_by = {};           ///< "compression.sparsifier = \"topk\""
  std::vector<std::string> parts = {};  ///< parts of a method
  std::string plugin = {};              ///< file that registered it; empty for the program's own
  std::vector<std::pair<std::string, SettingSpecs>> tables = {};  ///< of a config, with their settings
};

struct Kind {
  std::string singular;
  std::string plural;
  std::string table;  ///< of the key that chooses a component
  std::function<std::vector<std::string>()> names;
  /// @throws ConfigError for an unknown name.
  std::function<Description(const std::string& name)> describe;
};

std::string formula(const std::string& words) {
  if (words.empty()) return "";
  return words +
         " words of 4 bytes that a worker sends for each bucket, mean over the workers, where P workers select "
         "k of n entries each; counts and flags come on top";
}

/// A code has as many bits for each entry of any large bucket.
std::string code_traffic(const codec::QuantizerEntry& entry) {
  constexpr std::size_t kEntries = 1 << 20;
  const std::size_t bytes = entry.make(Settings(entry.settings))->code_bytes(kEntries);
  const double bits = 8.0 * static_cast<double>(bytes) / static_cast<double>(kEntries);
  return fmt::format(
      "about {:.3g} n (P-1) bits that a worker sends for each bucket of n entries to P-1 other workers, "
      "with the default settings",
      bits);
}

template <class Entry>
std::string traffic_of(const Entry& entry) {
  if constexpr (std::is_same_v<Entry, comm::SparseCollectiveEntry>) return formula(entry.traffic);
  if constexpr (std::is_same_v<Entry, codec::QuantizerEntry>) return code_traffic(entry);
  return "";
}

/// @param key names the component in a config.  @param table holds its settings; "*" stands for its name.
template <class Entry>
Kind registered(const std::string& plural, const std::string& key, const std::string& table) {
  const auto describe = [key, table](const std::string& name) {
    const Entry& entry = Registry<Entry>::instance().at(name);
    const std::string own_table = table.ends_with('*') ? table.substr(0, table.size() - 1) + name : table;
    return Description{.summary = entry.summary,
                       .source = entry.source,
                       .traffic = traffic_of(entry),
                       .chosen_by = fmt::format("{} = \"{}\"", key, name),
                       .plugin = Registry<Entry>::instance().plugin_of(name),
                       .tables = {{own_table, entry.settings}}};
  };
  return {Entry::kKind, plural, key.substr(0, key.rfind('.')), [] { return Registry<Entry>::instance().names(); },
          describe};
}

/// Describes a method's part, if it has that part.
template <class Entry>
const Entry* add_part(const std::string& name, Description& text, const std::string& condition = "") {
  const auto& registry = Registry<Entry>::instance();
  if (name == "none" || !registry.contains(name)) return nullptr;
  const Entry& entry = registry.at(name);
  text.parts.push_back(fmt::format("{} {}{} ({})", Entry::kKind, name, condition, entry.source));
  if (text.plugin.empty()) text.plugin = registry.plugin_of(name);
  return &entry;
}

Description describe_method(const std::string& name) {
  const Method method = find_method(name);
  Description text{.summary = method.summary, .chosen_by = fmt::format("compression.method = \"{}\"", name)};
  const bool takes_momentum = method.memory_with_momentum != method.memory;
  const auto with_settings = [&](const RegistryEntry* part) {
    if (part != nullptr) text.tables.emplace_back("compression." + part->name, part->settings);
  };
  with_settings(add_part<compress::SparsifierEntry>(method.sparsifier, text));
  with_settings(add_part<codec::QuantizerEntry>(method.quantizer, text));
  const auto* collective = add_part<comm::SparseCollectiveEntry>(method.collective, text);
  // If everything is sent dense or in codes, the settings of a sparse collective have no effect.
  if (method.sparsifier != "none") with_settings(collective);
  with_settings(add_part<compress::MemoryEntry>(method.memory, text, takes_momentum ? " without momentum" : ""));
  if (takes_momentum) {
    with_settings(add_part<compress::MemoryEntry>(method.memory_with_momentum, text, " with momentum"));
  }
  text.traffic = method.quantizer == "none"
                     ? formula(Registry<comm::SparseCollectiveEntry>::instance().at(method.collective).traffic)
                     : code_traffic(Registry<codec::QuantizerEntry>::instance().at(method.quantizer));
  return text;
}

Description describe_network(const std::string& name) {
  const comm::NetworkPreset& preset = comm::find_network_preset(name);
  const std::string numbers = network_text(preset.network.gbps(), preset.network.latency_us());
  return {.summary = fmt::format("{}: {}", numbers, preset.source),
          .chosen_by = fmt::format("network.model = \"alpha-beta\", network.preset = \"{}\"", name)};
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      registered<layers::ModelEntry>("models", "model.name", "model"),
      registered<data::DatasetEntry>("datasets", "data.name", "data"),
      registered<optim::OptimizerEntry>("optimizers", "optimizer.name", "optimizer"),
      registered<optim::ScheduleEntry>("schedules", "schedule.name", "schedule"),
      registered<UpdateSchemeEntry>("update_schemes", "update.scheme", "update"),
      {"method", "methods", "compression", method_names, describe_method},
      registered<compress::SparsifierEntry>("sparsifiers", "compression.sparsifier", "compression.*"),
      registered<codec::QuantizerEntry>("quantizers", "compression.quantizer", "compression.*"),
      registered<codec::IndexCodecEntry>("index_codecs", "compression.codec.indices", "compression.codec.*"),
      registered<codec::ValueCodecEntry>("value_codecs", "compression.codec.values", "compression.codec.*"),
      registered<compress::MemoryEntry>("memories", "compression.memory", "compression.*"),
      registered<compress::DensityScheduleEntry>("density_schedules", "compression.density_schedule", "compression.*"),
      registered<comm::SparseCollectiveEntry>("collectives", "compression.collective", "compression.*"),
      {"network", "networks", "network", comm::network_preset_names, describe_network},
  };
  return all;
}

/// Returns the summary for a list, with the plug-in that it comes from.
std::string summary_of(const Kind& kind, const std::string& name) {
  const Description description = kind.describe(name);
  if (description.plugin.empty()) return description.summary;
  return fmt::format("{} (plug-in {})", description.summary, description.plugin);
}

using KindList = std::vector<const Kind*>;

/// Returns the kinds that a word means: the one of this name, or those that a table of a config chooses.
KindList find_kinds(std::string word) {
  std::ranges::replace(word, '-', '_');
  KindList of_table;
  for (const Kind& kind : kinds()) {
    std::string singular = kind.singular;
    std::ranges::replace(singular, ' ', '_');
    if (word == singular || word == kind.plural) return {&kind};
    if (word == kind.table) of_table.push_back(&kind);
  }
  return of_table;
}

/// Returns those that have a component of this name.
KindList kinds_with(const std::string& name, KindList kinds) {
  std::erase_if(kinds, [&](const Kind* kind) { return std::ranges::count(kind->names(), name) == 0; });
  return kinds;
}

KindList all_kinds() {
  KindList all;
  for (const Kind& kind : kinds()) all.push_back(&kind);
  return all;
}

std::string list_kind(const Kind& kind) {
  std::size_t width = 0;
  for (const std::string& name : kind.names()) width = std::max(width, name.size());
  std::string text;
  for (const std::string& name : kind.names()) {
    text += fmt::format("{:<{}}  {}\n", name, width, summary_of(kind, name));
  }
  return text;
}

/// Returns the name and the text beside it, on as many lines as it takes; nothing for an empty text.
std::string paragraph(const std::string& name, const std::string& body) {
  constexpr std::size_t kIndent = 11;
  std::string text;
  const std::string label = name.size() < kIndent ? name : name + " ";
  for (const std::string& line : wrapped(body, kColumns - kIndent)) {
    text += fmt::format("{:<{}}{}\n", text.empty() ? label : "", kIndent, line);
  }
  return text;
}

/// @param type what values it takes.
std::string list_setting(const SettingSpec& spec, const std::string& type) {
  std::string text = fmt::format("  {} = {}\n", spec.name, dragonn::to_toml(spec.default_value));
  for (const std::string& line : wrapped(fmt::format("{}; {}", type, spec.help), kColumns - 6)) {
    text += fmt::format("      {}\n", line);
  }
  return text;
}

std::string list_component(const Kind& kind, const std::string& name) {
  const Description description = kind.describe(name);
  std::string text = paragraph(kind.singular, name) + paragraph("", description.summary);
  text += paragraph("Choose by", description.chosen_by);
  for (const std::string& part : description.parts) {
    text += paragraph(part == description.parts.front() ? "Parts" : "", part);
  }
  text += paragraph("Plug-in", description.plugin);
  text += paragraph("Source", description.source) + paragraph("Traffic", description.traffic);
  std::string settings;
  for (const auto& [table, specs] : description.tables) {
    if (!specs.empty()) settings += fmt::format("\nSettings in [{}], with their defaults:\n", table);
    for (const SettingSpec& spec : specs) settings += list_setting(spec, spec.describe_type());
  }
  return text + (settings.empty() ? "\nIt has no settings of its own.\n" : settings);
}

/// Returns a line for each component: "kind name: summary".
std::string list_kinds(const KindList& chosen) {
  std::string text;
  for (const Kind* kind : chosen) {
    for (const std::string& name : kind->names()) {
      text += fmt::format("{} {}: {}\n", kind->singular, name, summary_of(*kind, name));
    }
  }
  return text;
}

/// Returns the page of the component of that name. If several kinds have one, that of the method, which names its
/// parts, and the commands that print the others.
std::string list_named(const std::string& name, const KindList& found) {
  if (found.size() == 1) return list_component(*found.front(), name);
  const auto method = std::ranges::find(found, std::string("method"), &Kind::singular);
  std::string text = method == found.end() ? fmt::format("Several components have the name {}:\n", name)
                                           : fmt::format("{}\nOther components have the name {}, too:\n",
                                                         list_component(**method, name), name);
  for (const Kind* kind : found) {
    if (kind->singular != "method") text += fmt::format("  dragonn-train --list {} {}\n", kind->plural, name);
  }
  return text;
}

/// Refuses a word that is no kind, no table and no component's name.
[[noreturn]] void refuse(const std::string& word) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.insert(names.end(), {kind.plural, kind.table});
  for (const ConfigKey& key : config_schema().keys) names.push_back(key.table);
  const auto kinds_and_tables = std::ssize(names);
  for (const Kind& kind : kinds()) {
    // There are many short names: one with another first letter is hardly meant.
    std::ranges::copy_if(kind.names(), std::back_inserter(names),
                         [&](const std::string& name) { return name.substr(0, 1) == word.substr(0, 1); });
  }
  const auto nearest = nearest_name(word, names);
  if (nearest && std::ranges::find(names, *nearest) - names.begin() >= kinds_and_tables)
    throw ConfigError(fmt::format("--list: no component '{}'; did you mean '{}'?", word, *nearest));
  throw ConfigError(fmt::format("--list: unknown kind '{}'; {}valid: {}", word,
                                nearest ? fmt::format("did you mean '{}'? ", *nearest) : "",
                                fmt::join(component_kinds(), ", ")));
}

}  // namespace

std::vector<std::string> component_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.push_back(kind.plural);
  return names;
}

std::string list_components(const std::vector<std::string>& words) {
  if (words.empty()) return list_kinds(all_kinds());
  const std::string& word = words[0];
  const KindList meant = find_kinds(word);
  if (words.size() > 1) {
    const std::string& name = words[1];
    if (meant.size() == 1) return list_component(*meant.front(), name);
    if (const KindList found = kinds_with(name, meant); !found.empty()) return list_named(name, found);
  } else {
    if (meant.size() == 1) return list_kind(*meant.front());
    if (!meant.empty()) return list_kinds(meant);
    // A component's own table: [compression.dgc].
    const std::string name = word.substr(word.rfind('.') + 1);
    if (const KindList found = kinds_with(name, all_kinds()); !found.empty()) return list_named(name, found);
  }
  // The keys of a table, of those whose name no component chooses.
  std::vector<ConfigKey> keys = config_schema().keys;
  std::erase_if(keys, [&](const ConfigKey& key) { return word.empty() || key.table != word; });
  if (keys.empty()) refuse(word);
  if (words.size() > 1) {
    std::vector<std::string> names;
    for (const ConfigKey& key : keys) names.push_back(key.spec.name);
    std::erase_if(keys, [&](const ConfigKey& key) { return key.spec.name != words[1]; });
    if (keys.empty()) throw ConfigError("--list: " + unknown_name_message("key of " + word, words[1], names));
  }
  std::string text = fmt::format("Keys of [{}], with their defaults:\n", word);
  for (const ConfigKey& key : keys) text += list_setting(key.spec, key.describe_type());
  return text;
}

}  // namespace dragonn::trainer

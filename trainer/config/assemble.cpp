// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/file.h"
#include "core/plugins.h"
#include "core/program.h"
#include "layers/graph.h"
#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/exchange_config.h"

namespace dragonn::trainer {
namespace {

/// A key of [network], and whether it says something else than its default.
using SetKey = std::pair<const char*, bool>;

/// Returns the keys that say what a network file says, too.
std::vector<SetKey> keys_of_links(const NetworkConfig& network) {
  const NetworkKeys initial;
  return {{"preset", network.preset != initial.preset},
          {"latency_us", network.latency_us.number.has_value()},
          {"gbps", network.gbps.number.has_value()},
          {"workers_per_node", network.workers_per_node != initial.workers_per_node},
          {"nodes", !network.nodes.empty()},
          {"inside_latency_us", network.inside_latency_us != initial.inside_latency_us},
          {"inside_gbps", network.inside_gbps != initial.inside_gbps},
          {"up_gbps", !network.up_gbps.empty()},
          {"down_gbps", !network.down_gbps.empty()}};
}

void check_network(const NetworkConfig& network) {
  require(network.slowest == 1 || network.step_ms > 0,
          "network.slowest = {} multiplies network.step_ms, which is 0: expected network.step_ms above 0",
          network.slowest);
  std::vector<SetKey> keys = keys_of_links(network);
  if (network.model == NetworkKind::kNone) {
    keys.insert(keys.end(), {{"step_ms", network.step_ms > 0},
                             {"compute", network.compute != comm::Compute::kMeasured},
                             {"file", !network.file.empty()}});
    for (const auto& [key, is_set] : keys) {
      require(!is_set, "network.{} is of no use with network.model = \"none\": expected network.model = \"alpha-beta\"",
              key);
    }
    return;
  }
  if (!network.file.empty()) {
    for (const auto& [key, is_set] : keys) {
      require(!is_set, "network.{} does not go with network.file = \"{}\", which says it: expected one of the two", key,
              network.file);
    }
    return;
  }
  const bool has_latency = network.latency_us.number.has_value(), has_gbps = network.gbps.number.has_value();
  require(network.preset != "none" || (has_latency && has_gbps),
          "network.model = \"{}\" lacks network.{}: expected network.latency_us and network.gbps, or network.preset = "
          "{}, or network.file",
          name_of(network.model), has_latency ? "gbps" : "latency_us", fmt::join(comm::network_preset_names(), " | "));
}

/// Returns a warning where what a worker does not send is lost.
std::vector<std::string> lost_entries(const CompressionConfig& compression) {
  const bool drops = compression.selects() && compression.density < 1 && compression.collective.name != "dense";
  if (!drops || compression.memory.name != "none") return {};
  if (compression.sparsifier.entry().traits(compression.sparsifier.settings).rescaled)
    return {};  // unbiased: error feedback does not go with it
  return {
      fmt::format("compression.memory = \"none\" with the sparsifier {}: gradient entries that a worker does not send "
                  "are lost; compression.memory = \"residual\" sends them later",
                  compression.sparsifier.name)};
}

RawConfig read_config_file(const std::filesystem::path& path) {
  constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;  // one with more is some other file
  try {
    return read_toml(read_text_file(path, kMaxConfigBytes), path.string());
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  }
}

RunSpec to_spec(RawConfig raw, const std::string& name, std::span<const std::string> overrides) {
  Config config = resolve_config(std::move(raw), overrides, /*complete=*/true);
  try {
    return RunSpec(std::move(config));
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", name, error.what()));
  }
}

/// Loads the plug-ins that a config names: their components can only then be found in the registries. Those of the file
/// are relative to its folder, those of an override to the working directory. @throws ConfigError.
void load_plugins(RawConfig raw, const std::filesystem::path& folder, std::span<const std::string> overrides) {
  for (const std::string& assignment : overrides) apply_override(raw, assignment);
  const auto key = std::ranges::find(raw.keys, "plugins", &RawKey::path);
  if (key == raw.keys.end()) return;
  const auto* const files = std::get_if<std::vector<std::string>>(&key->value);
  if (files == nullptr) return;  // the types of keys are checked later
  for (const std::string& file : *files) {
    load_plugin_methods(key->is_override ? std::filesystem::path(file) : folder / file,
                        key->is_override ? key->origin : fmt::format("{}: plugins: {}", key->origin, file));
  }
}

/// Makes the config name all plug-ins of this process, wherever it is read again, and tells the user what they have.
void name_plugins(Config& config) {
  config.plugins.clear();
  for (const LoadedPlugin& plugin : loaded_plugins()) {
    config.plugins.push_back(plugin.file.string());
    config.notes.push_back(fmt::format("plug-in {}: {}", plugin.file.string(), fmt::join(plugin.components, ", ")));
  }
}

}  // namespace

std::string UpdateConfig::describe_period() const {
  const UpdateTraits demands = traits();
  if (demands.steps_per_exchange == 1) return "";
  const std::uint64_t interval = steps_between_exchanges();
  const std::string what =
      demands.fragments > 1 ? fmt::format("one of {} fragments", demands.fragments) : "one exchange";
  const std::string overlap = demands.overlap_steps > 0 ? fmt::format(" behind {} of them", demands.overlap_steps) : "";
  return fmt::format(", {} in {}{} steps{}", what, demands.skips_steps ? "at most " : "", interval, overlap);
}

std::vector<std::string> config_warnings(const Config& config) {
  std::vector<std::string> warnings = lost_entries(config.compression);
  if (quick_limit())
    warnings.push_back(fmt::format("DRAGONN_QUICK ends the run after step {}", config.train.max_steps));
  return warnings;
}

RunSpec::RunSpec(Config config) : Config(std::move(config)), rules(exchange_rules(*this)) {
  check_network(network);
  network.read_links();
  require(train.patience == 0 || train.eval_every_epochs > 0,
          "train.patience = {} counts evaluations, and train.eval_every_epochs = 0 makes none before the end: expected "
          "train.eval_every_epochs of at least 1, or train.patience = 0",
          train.patience);
  check_comm(*this);
  const data::DatasetEntry& dataset = data.entry();
  require(!dataset.needs_path || !data.path.empty(), "data.path is missing: the data set {} is read from a folder",
          data.name);
  check_exchange(*this, rules);
  // Data sets that read files tell their shape only then, unless their format fixes it.
  const Shape shape = dataset.shape(data.settings);
  if (shape.rank() > 0) make_network(*this, shape, dataset.classes);
}

RunSpec parse_config(const std::string& text, const std::string& name, std::span<const std::string> overrides) {
  return to_spec(read_toml(text, name), name, overrides);
}

RunSpec load_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  const RawConfig raw = read_config_file(path);
  load_plugins(raw, path.parent_path(), overrides);
  RunSpec spec = to_spec(raw, path.string(), overrides);
  name_plugins(spec);
  return spec;
}

RawConfig read_raw_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  RawConfig raw = read_config_file(path);
  load_plugins(raw, path.parent_path(), overrides);
  for (const std::string& assignment : overrides) apply_override(raw, assignment);
  std::vector<std::string> files;
  for (const LoadedPlugin& plugin : loaded_plugins()) files.push_back(plugin.file.string());
  if (!files.empty()) apply_override(raw, "plugins=" + dragonn::to_toml(SettingValue(files)));
  return raw;
}

void load_plugins_of(const std::filesystem::path& path, std::span<const std::string> overrides) {
  load_plugins(read_config_file(path), path.parent_path(), overrides);
}

CommConfig load_comm_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  RawConfig raw = read_config_file(path);
  for (const std::string& assignment : overrides) apply_override(raw, assignment);
  std::erase_if(raw.keys, [](const RawKey& key) { return key.table != "comm"; });
  raw.tables.clear();
  return resolve_config(std::move(raw), {}, /*complete=*/false).comm;
}

RunSpec default_config(std::span<const std::string> overrides) {
  load_plugins({}, "", overrides);
  RunSpec spec;
  static_cast<Config&>(spec) = resolve_config({}, overrides, /*complete=*/false);
  name_plugins(spec);
  return spec;
}

data::DatasetSplits load_data(const Config& config) {
  return config.data.entry().load(config.data.settings, config.data.path, static_cast<std::uint64_t>(config.seed));
}

layers::Network make_network(const Config& config, const data::Dataset& data, Device device) {
  constexpr const char* kTargets[] = {"one class per sample", "one class per time step", "a set of classes per sample",
                                      "a sequence of classes per sample"};  // by TargetKind
  layers::Network network = make_network(config, data.sample_shape(), data.classes(), device);
  const auto target = static_cast<std::size_t>(network.target_kind());
  const auto given = static_cast<std::size_t>(data.target_kind());
  require(target == given, "model '{}' learns {}, but data '{}' have {}", config.model.name, kTargets[target],
          config.data.name, kTargets[given]);
  return network;
}

layers::Network make_network(const Config& config, Device device) {
  const data::DatasetEntry& entry = config.data.entry();
  const Shape sample_shape = entry.shape(config.data.settings);
  if (sample_shape.rank() > 0 && entry.classes > 0) return make_network(config, sample_shape, entry.classes, device);
  const data::DatasetSplits data = load_data(config);
  return make_network(config, data.train->sample_shape(), data.train->classes(), device);
}

layers::Network make_network(const Config& config, const Shape& sample_shape, int classes, Device device) {
  // On the CPU a network also serves checks and exports of configs for a GPU.
  const kernels::DeviceMath math = device.is_cpu() ? kernels::DeviceMath::kFloat32 : config.device_math;
  return layers::Network(config.model.entry().make(config.model.settings, {sample_shape, classes}),
                         config.train.label_smoothing, device, {math, config.device_graphs, config.train.recompute});
}

}  // namespace dragonn::trainer

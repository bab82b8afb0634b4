// SPDX-License-Identifier: MIT
/// Config: the request for a run, typed, checked and resolved.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/indices/index_codec.h"
#include "codec/list_codec.h"
#include "codec/values/value_codec.h"
#include "comm/communicator.h"
#include "comm/network_model.h"
#include "comm/node_links.h"
#include "comm/virtual/virtual_worker.h"
#include "compress/density_schedule.h"
#include "core/choice.h"
#include "core/log.h"
#include "core/registry.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "exchange/exchange_rules.h"
#include "kernels/device_math.h"
#include "layers/network.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "trainer/update/update_scheme.h"

namespace dragonn::trainer {

// Keys with a choice of words are enums: the words stand beside them, in the order of the values.

enum class WantedDevice { kAuto, kCpu, kCuda };
constexpr auto choices(WantedDevice) {
  return std::array{"auto", "cpu", "cuda"};
}

enum class Clip { kNone, kLocal, kLocalSqrtWorkers, kGlobal };
constexpr auto choices(Clip) {
  return std::array{"none", "local", "local_sqrt_workers", "global"};
}

enum class NonFinite { kError, kSkip };
constexpr auto choices(NonFinite) {
  return std::array{"error", "skip"};
}

enum class GlobalBatch { kPerWorker, kConstant };
constexpr auto choices(GlobalBatch) {
  return std::array{"per_worker", "constant"};
}

enum class BucketScope { kAuto, kTensor, kModel };
constexpr auto choices(BucketScope) {
  return std::array{"auto", "tensor", "model"};
}

enum class IncludeVectors { kAuto, kYes, kNo };
constexpr auto choices(IncludeVectors) {
  return std::array{"auto", "yes", "no"};
}

enum class Transform { kAuto, kNone, kDct };
constexpr auto choices(Transform) {
  return std::array{"auto", "none", "dct"};
}

enum class AccForm { kRaw, kFolded };
constexpr auto choices(AccForm) {
  return std::array{"raw", "folded"};
}

enum class Share { kEqual, kByLink };
constexpr auto choices(Share) {
  return std::array{"equal", "by_link"};
}

enum class SelectTensors { kAll, kCostModel };
constexpr auto choices(SelectTensors) {
  return std::array{"all", "cost_model"};
}

enum class Backend { kAuto, kLocal, kMpi, kTcp, kNccl };
constexpr auto choices(Backend) {
  return std::array{"auto", "local", "mpi", "tcp", "nccl"};
}

enum class Bootstrap { kMpi, kTcp };
constexpr auto choices(Bootstrap) {
  return std::array{"mpi", "tcp"};
}

enum class Hierarchy { kAuto, kOff, kNode };
constexpr auto choices(Hierarchy) {
  return std::array{"auto", "off", "node"};
}

enum class RunsCoordinator { kRankZero, kSeparate };
constexpr auto choices(RunsCoordinator) {
  return std::array{"rank_zero", "separate"};
}

enum class NetworkKind { kNone, kAlphaBeta };
constexpr auto choices(NetworkKind) {
  return std::array{"none", "alpha-beta"};
}

enum class Auto { kAuto };
constexpr auto choices(Auto) {
  return std::array{"auto"};
}

/// Holds one of some words, or a number in place of a word.
template <Choice E, class T>
struct WordOr {
  using Word = E;
  using Number = T;
  WordOr(Word chosen) : word(chosen) {}

  Word word;  ///< unused if there is a number
  std::optional<Number> number = {};

  bool is(Word other) const { return !number && word == other; }
};
using BucketSize = WordOr<BucketScope, double>;               ///< or MiB
using SelectedTensors = WordOr<SelectTensors, std::int64_t>;  ///< or elements of the smallest
using AutoOrNumber = WordOr<Auto, double>;

/// Names a component of one registry, with its settings.
template <class RegisteredEntry>
struct ComponentOf : Component {
  using Entry = RegisteredEntry;
  ComponentOf(const char* chosen) : Component{chosen, {}} {}

  /// Returns the registered entry. @throws ConfigError that lists the valid names.
  const Entry& entry() const { return Registry<Entry>::instance().at(name); }
};

// Defines the structs of the tables: TrainConfig, ...
#define TOP_TABLE(type) struct type {
#define TABLE(type, name) struct type {
#define SUBTABLE(type, parent, name) struct type {
#define COMPONENT_TABLE(type, Entry, name, initial, help) \
  struct type : ComponentOf<Entry> {                      \
    type() : ComponentOf(initial) {}
#define KEY(type, name, initial, ...) type name = initial;
#define RUNTIME_KEY KEY
#define END_TABLE }
#include "trainer/config/config_keys.def"

/// The table [compression]. After load_config no value is "auto": the method's choices are filled in. The sparsifier is
/// "none" with the method dense and with a quantizer, the quantizer "none" unless the method is one.
struct CompressionConfig : CompressionKeys {
  CodecKeys codec;

  bool is_dense() const { return method == "dense"; }
  /// Returns whether buckets are quantized.
  bool quantizes() const { return quantizer.name != "none"; }
  /// Returns whether entries are selected: only then has a density a meaning.
  bool selects() const { return sparsifier.name != "none" && !(quantizes() && sparsifier.name == "all"); }
  /// Returns the codec of lists.
  codec::CodecChoice coding() const { return {codec.indices, codec.values}; }
};

/// The table [update].
struct UpdateConfig : UpdateKeys {
  /// Returns the demands of the scheme. @throws ConfigError for settings that do not fit together.
  UpdateTraits traits() const;
  /// Returns UpdateSchemeEntry::steps_locally.
  bool steps_locally() const;
  std::uint64_t steps_per_exchange() const { return static_cast<std::uint64_t>(traits().steps_per_exchange); }
  /// Returns the steps from one exchange to the next, of whichever bucket.
  std::uint64_t steps_between_exchanges() const { return steps_per_exchange() / traits().fragments; }
  /// Returns ", one exchange in 30 steps"; empty if every step exchanges.
  std::string describe_period() const;
};

/// The table [comm].
struct CommConfig : CommKeys {
  /// Returns the backend that connects the workers: any but kNccl.
  Backend process_backend() const;
};

/// The table [network].
struct NetworkConfig : NetworkKeys {
  /// The content of `file`; empty without one. This is no key.
  std::optional<comm::NodeLinks> links;

  /// Reads `file`, if one is set. @throws ConfigError if it cannot be read, or is no network file.
  void read_links();
  /// Returns the modelled network; empty with model none. Of a file it is what the slowest pair of nodes has
  /// (comm::slowest_path).
  std::optional<comm::NetworkModel> modelled() const;
  /// Returns the modelled network with the least rate of up_gbps and down_gbps, as a step waits for the slowest link;
  /// for formulas that know one network.
  std::optional<comm::NetworkModel> slowest_link() const;
  /// Returns the nodes of a virtual cluster of so many workers; NodeLinks::is_plain() if each worker has its own link.
  /// @throws ConfigError for nodes with more or fewer workers, or a number of rates that is not that of the nodes.
  comm::NodeLinks node_links(int workers) const;
  /// Returns its numbers, and the preset that has them: "10 Gbit/s, 50 us latency (10gbe)"; empty with model none.
  std::string describe() const;
};

struct Config : TopConfig {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  UpdateConfig update;
  CompressionConfig compression;
  CommConfig comm;
  NetworkConfig network;
  CheckpointConfig checkpoint;
  LoggingConfig logging;

  /// Notes for the user on how the config was read: keys that were dropped or have new names. This is no key.
  std::vector<std::string> notes;

  /// Returns whether the optimizer has momentum that is not 0.
  bool has_momentum() const;
};

/// A config whose parts fit together, and the rules that follow from it. parse_config derives them once.
struct RunSpec : Config {
  RunSpec() = default;
  /// Derives the rules. @throws ConfigError naming the keys that do not fit together, and what would.
  explicit RunSpec(Config config);

  exchange::ExchangeRules rules;  ///< how gradients are exchanged
};

/// Reads a TOML file, applies `overrides` ("a.b=value": a TOML value, or else a string; the last one of a key wins),
/// loads the plug-ins that it names (core/plugins.h), fills in defaults, resolves the method, and checks what can be
/// known without data. The config then names all plug-ins of this process, by absolute paths.
/// @throws ConfigError "file:line:column: key = value: expected ..." or "--set a.b=value: ..." for an unknown table or
/// key, a wrong type, a value out of range, or parts that do not fit together.
RunSpec load_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});
/// Loads the plug-ins that a TOML file and `overrides` name, and reads nothing else. @throws ConfigError, as
/// load_config.
void load_plugins_of(const std::filesystem::path& path, std::span<const std::string> overrides = {});
/// Returns the table [comm] of a TOML file whose other keys may be wrong: what a rank needs to tell the others so.
/// @throws ConfigError, as load_config.
CommConfig load_comm_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});
/// Parses a config from the text itself, as load_config, but loads no plug-in. `name` stands for the file in errors.
RunSpec parse_config(const std::string& text, const std::string& name, std::span<const std::string> overrides = {});
/// Returns the defaults and `overrides`, without a file: the model and the data set have no name unless an override
/// gives one. For looking at: whether the parts fit together is not checked, and no rules follow. @throws ConfigError,
/// as load_config.
RunSpec default_config(std::span<const std::string> overrides = {});

/// Reads both splits. @throws ConfigError (missing path), DataError.
data::DatasetSplits load_data(const Config& config);
/// Returns a network without memory yet. @throws ConfigError if the model does not fit the data.
layers::Network make_network(const Config& config, const data::Dataset& data, Device device = {});
layers::Network make_network(const Config& config, const Shape& sample_shape, int classes, Device device = {});
/// Returns the network of a config. Reads the data only if its samples or classes are not known without it.
layers::Network make_network(const Config& config, Device device = {});

/// Returns warnings about values that are valid but most likely not intended, one sentence each.
std::vector<std::string> config_warnings(const Config& config);

/// Returns the resolved config with every key, its help, type, range and default as comments. Loading it gives this
/// config.
std::string to_toml(const Config& config);
/// Returns the settings of all components that to_toml() does not show because the config names others, all in
/// comments.
std::string other_settings(const Config& config);
/// Returns the manual page dragonn-train.toml(5): every key with meaning, type, range and default, then the settings of
/// all registered components.
std::string config_man_page();
/// Returns "table.key=" for every key and setting, and "table.key=word" for each word that a key takes.
std::vector<std::string> config_words();
/// Returns "train.epochs 2 -> 3" for every key whose values differ and that can change the numbers of a run.
std::vector<std::string> config_changes(const Config& before, const Config& after);
/// Returns 16 hexadecimal digits over every key that can change the numbers of a run. Where data lies, how often is
/// logged and saved, how many workers on which backend (a run reports those apart) and max_steps are left out.
std::string config_hash(const Config& config);

/// A preset of `compression.method`: the sparsifier or quantizer, collective, memory and bucket of a paper. Keys that
/// the config sets override it.
struct Method {
  std::string name;
  std::string summary;
  std::string sparsifier;
  std::string collective = "allgather";
  std::string memory = "residual";
  /// The memory if the optimizer has momentum, instead of `memory`: one that takes the momentum over.
  std::string memory_with_momentum = "residual";
  std::string quantizer = "none";
  BucketScope bucket = BucketScope::kTensor;
  Transform transform = Transform::kNone;

  bool is_dense() const { return sparsifier == "none" && quantizer == "none"; }
};

/// Returns the preset of that name. A registered sparsifier or quantizer without a preset of its own is a method too:
/// with the collective allgather and the memory residual (none for an unbiased quantizer). @throws ConfigError listing
/// the valid names.
Method find_method(const std::string& name);

/// Returns the names of all methods, ascending.
std::vector<std::string> method_names();

/// Loads a plug-in (core/plugins.h), whose sparsifiers and quantizers are methods, too. @throws ConfigError, also if
/// one has the name of another method.
void load_plugin_methods(const std::filesystem::path& file, const std::string& named_by);

}  // namespace dragonn::trainer

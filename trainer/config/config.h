// SPDX-License-Identifier: MIT
/// Config: everything that a run is asked to do, typed, checked and resolved.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/network_model.h"
#include "comm/virtual/virtual_clock.h"
#include "core/choice.h"
#include "core/component.h"
#include "core/log.h"
#include "data/sampler.h"
#include "kernels/device_math.h"
#include "trainer/exchange/buckets.h"

namespace dragonn::trainer {

// The initial values below are the defaults of the keys; types, ranges, units and help stand in config_keys.cpp. A key
// has the name of its member. Components resolve through their registries and carry the settings that they declare.

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

enum class IncludeVectors { kAuto, kYes, kNo };
constexpr auto choices(IncludeVectors) {
  return std::array{"auto", "yes", "no"};
}

enum class AccForm { kRaw, kFolded };
constexpr auto choices(AccForm) {
  return std::array{"raw", "folded"};
}

enum class Backend { kAuto, kLocal, kMpi, kTcp, kNccl };
constexpr auto choices(Backend) {
  return std::array{"auto", "local", "mpi", "tcp", "nccl"};
}

enum class Bootstrap { kMpi, kTcp };
constexpr auto choices(Bootstrap) {
  return std::array{"mpi", "tcp"};
}

enum class NetworkKind { kNone, kAlphaBeta };
constexpr auto choices(NetworkKind) {
  return std::array{"none", "alpha-beta"};
}

/// [data]
struct DataConfig : Component {
  std::string path;  ///< folder, relative to the working directory
};

/// [train]
struct TrainConfig {
  std::int64_t epochs = 30;
  std::int64_t batch_size = 32;  ///< samples per worker and micro-batch
  std::int64_t gradient_accumulation = 1;
  std::int64_t max_steps = 0;          ///< 0: no limit. Ends early; schedules still run over `epochs`
  std::int64_t eval_every_epochs = 1;  ///< 0: only at the end
  std::int64_t eval_batch_size = 100;
  double label_smoothing = 0.0;
  Clip clip = Clip::kNone;
  double clip_norm = 1.0;
  NonFinite non_finite = NonFinite::kError;
  std::int64_t replica_check_every = 100;  ///< steps; 0: only at the end
  data::Remainder remainder = data::Remainder::kDrop;
};

/// [optimizer]
struct OptimizerConfig : Component {
  OptimizerConfig() { name = "sgd"; }

  double learning_rate = 0.1;
};

/// [compression]. After load_config nothing here says "auto": the method's choices are filled in.
struct CompressionConfig {
  std::string method = "dense";
  double density = 0.01;
  Component sparsifier{"auto", {}};  ///< name "none" with the method dense and with a quantizer
  Component quantizer{"auto", {}};   ///< name "none" unless the method is a quantizer
  Component collective{"auto", {}};
  Component memory{"auto", {}};
  Component density_schedule{"constant", {}};
  std::optional<BucketRules::Grouping> bucket;             ///< empty: auto
  double bucket_mib = 0;                                   ///< with Grouping::kBytes
  IncludeVectors include_vectors = IncludeVectors::kAuto;  ///< whether biases and normalization are sparsified too
  AccForm acc_form = AccForm::kRaw;
  enum class SelectTensors { kAll, kCostModel, kMinimumSize };
  SelectTensors select_tensors = SelectTensors::kAll;
  std::int64_t minimum_size = 0;  ///< elements, with SelectTensors::kMinimumSize
  double fusion_mib = 25;         ///< of the gradients whose buckets travel together
  bool overlap = false;           ///< groups of buckets are exchanged while backward goes on
  std::string profile;            ///< file of encode and decode times; empty: measured at start-up where needed

  bool is_dense() const { return method == "dense"; }
  /// Buckets are quantized.
  bool quantizes() const { return quantizer.name != "none"; }
  /// Entries are selected: only then has a density a meaning.
  bool selects() const { return sparsifier.name != "none"; }
  /// How the gradient is cut.
  BucketRules bucket_rules() const;
  FusionRules fusion_rules() const;
};

/// [comm]
struct CommConfig {
  std::int64_t workers = 1;
  Backend backend = Backend::kAuto;
  Bootstrap bootstrap = Bootstrap::kMpi;
  std::string rendezvous;  ///< tcp:HOST:PORT | file:PATH | empty
  double timeout_s = 120.0;
  std::int64_t threads_per_worker = 1;
  comm::DenseAlgorithm dense_algorithm = comm::DenseAlgorithm::kRing;

  /// What brings the workers together: any backend but kNccl.
  Backend meets_by() const;
};

/// [network]
struct NetworkConfig {
  NetworkKind model = NetworkKind::kNone;
  std::string preset = "none";            ///< or a name of network_presets()
  std::optional<double> latency_us = {};  ///< instead of the preset's
  std::optional<double> gbps = {};
  comm::Compute compute = comm::Compute::kMeasured;

  /// The modelled network; empty with model none.
  std::optional<comm::NetworkModel> modelled() const;
  /// Its numbers, and the preset whose they are: "10 Gbit/s, 50 us latency (10gbe)"; empty with model none.
  std::string describe() const;
};

/// [checkpoint]
struct CheckpointConfig {
  std::int64_t every_steps = 0;
  std::int64_t every_epochs = 1;
  std::int64_t keep = 2;
  bool keep_best = true;
};

/// [logging]
struct LoggingConfig {
  std::int64_t every_steps = 10;
  log::Level level = log::Level::kInfo;
  std::vector<std::int64_t> dump_gradients;
};

struct Config {
  std::int64_t seed = 1;
  WantedDevice device = WantedDevice::kAuto;
  kernels::DeviceMath device_math = kernels::DeviceMath::kFloat32;
  bool device_graphs = true;
  Component model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  Component schedule{"constant", {}};
  CompressionConfig compression;
  CommConfig comm;
  NetworkConfig network;
  CheckpointConfig checkpoint;
  LoggingConfig logging;

  /// What the reading of the config left out, for whoever started the run. No key.
  std::vector<std::string> notes;
};

/// Reads a TOML file, applies `overrides` ("a.b=value": a TOML value, or else a string; the last one of a key wins),
/// fills in defaults, resolves the method, and checks what can be known without data.
/// @throws ConfigError "file:line:column: key = value: expected ..." or "--set a.b=value: ..." for an unknown table or
/// key, a wrong type, a value out of range, or parts that do not fit together.
Config load_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});
/// As load_config, from the text itself. `name` stands for the file in errors.
Config parse_config(const std::string& text, const std::string& name, std::span<const std::string> overrides = {});
/// The defaults and `overrides`, without a file: the model and the data set have no name unless an override gives one.
/// For looking at: whether the parts fit together is not checked. @throws ConfigError, as load_config.
Config default_config(std::span<const std::string> overrides = {});

/// The resolved config with every key, its help, type, range and default as comments. Loading it gives this config.
std::string to_toml(const Config& config);
/// The settings of all components that to_toml() does not show because the config names others, all in comments.
std::string other_settings(const Config& config);
/// "train.epochs 2 -> 3" for every key whose values differ and that can change the numbers of a run.
std::vector<std::string> config_changes(const Config& before, const Config& after);
/// 16 hexadecimal digits over every key that can change the numbers of a run. Where data lies, how often is logged and
/// saved, how many workers on which backend (a run reports those apart) and max_steps are left out.
std::string config_hash(const Config& config);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/config/assemble.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/tcp/rendezvous.h"
#include "core/error.h"
#include "core/quick.h"
#include "core/units_text.h"
#include "layers/graph.h"

namespace dragonn::trainer {
namespace {

/// Throws the formatted ConfigError unless the parts fit.
template <class... Args>
void require(bool fits, fmt::format_string<Args...> otherwise, Args&&... args) {
  if (!fits) throw ConfigError(fmt::format(otherwise, std::forward<Args>(args)...));
}

void check_network(const NetworkConfig& network) {
  const bool has_preset = network.preset != "none", is_measured = network.compute == comm::Compute::kMeasured;
  const bool has_latency = network.latency_us.number.has_value(), has_gbps = network.gbps.number.has_value();
  if (network.model == NetworkKind::kNone) {
    const char* const key = has_preset ? "preset" : has_latency ? "latency_us" : has_gbps ? "gbps" : "compute";
    return require(!has_preset && !has_latency && !has_gbps && is_measured,
                   "network.{} is of no use with network.model = \"none\": expected network.model = \"alpha-beta\"",
                   key);
  }
  require(
      has_preset || (has_latency && has_gbps),
      "network.model = \"{}\" lacks network.{}: expected network.latency_us and network.gbps, or network.preset = {}",
      name_of(network.model), has_latency ? "gbps" : "latency_us", fmt::join(comm::network_preset_names(), " | "));
}

/// Checks the parts: a sparsifier, a quantizer, or with the method dense neither.
void check_parts(const CompressionConfig& compression) {
  const std::string& sparsifier = compression.sparsifier.name;
  const std::string& quantizer = compression.quantizer.name;
  const std::string given = fmt::format("sparsifier = \"{}\", quantizer = \"{}\"", sparsifier, quantizer);
  const bool selects = compression.selects(), quantizes = compression.quantizes();
  if (compression.is_dense()) {
    require(!selects && !quantizes && compression.collective.name == "dense",
            "compression.method = \"dense\" does not go with {}, collective = \"{}\": expected \"none\", \"none\" and "
            "\"dense\", or the method \"{}\"",
            given, compression.collective.name,
            selects     ? sparsifier
            : quantizes ? quantizer
                        : compression.method);
  } else {
    require(selects != quantizes,
            "compression.method = \"{}\" does not go with {}: expected a sparsifier and quantizer = \"none\", or a "
            "quantizer and sparsifier = \"none\" or \"all\", or method = \"dense\"",
            compression.method, given);
  }
  // A cost model knows the times of selections.
  require(
      !quantizes || !compression.select_tensors.is(SelectTensors::kCostModel),
      "compression.select_tensors = \"cost_model\" does not go with quantizer = \"{}\": expected all or a number of "
      "elements, or a sparsifier",
      quantizer);
}

/// Checks the memory: one that owns the momentum takes it from the optimizer.
void check_memory(const Config& config) {
  std::vector<std::string> fitting;
  const auto& memories = Registry<compress::MemoryEntry>::instance();
  for (const std::string& name : memories.names()) {
    if (!memories.at(name).owns_momentum) fitting.push_back(name);
  }
  require(
      !config.compression.memory.entry().owns_momentum || config.optimizer.entry().has_momentum,
      "compression.memory = \"{}\" needs an optimizer with momentum, and optimizer.name = \"{}\" has none: expected {}",
      config.compression.memory.name, config.optimizer.name, fmt::join(fitting, " | "));
}

/// Checks a folded accumulator: the learning rate is inside, so only updates that add the sum as it is can follow.
void check_accumulator(const Config& config) {
  if (config.compression.acc_form != AccForm::kFolded || config.compression.is_dense()) return;
  require(config.optimizer.entry().allows_folded,
          "compression.acc_form = \"folded\" needs plain SGD, not optimizer.name = \"{}\": expected \"raw\", or the "
          "optimizer sgd",
          config.optimizer.name);
  require(
      !config.has_momentum() || config.compression.memory.entry().owns_momentum,
      "compression.acc_form = \"folded\" needs optimizer.momentum = 0, or a memory that owns the momentum: expected "
      "momentum_correction, not compression.memory = \"{}\"",
      config.compression.memory.name);
  require(config.train.clip != Clip::kGlobal,
          "train.clip = \"global\" clips gradients, and with compression.acc_form = \"folded\" steps are exchanged: "
          "expected none | local | local_sqrt_workers");
}

/// Checks what moves between GPUs without the host, and how workers connect.
void check_comm(const Config& config) {
  const CommConfig& comm = config.comm;
  const bool is_nccl = comm.backend == Backend::kNccl;
  const std::string backend = name_of(comm.backend);
  require(!is_nccl || !config.compression.quantizes(),
          "comm.backend = \"nccl\" does not go with quantizer = \"{}\", whose codes are messages of the host: expected "
          "\"mpi\" or \"tcp\", or a sparsifier",
          config.compression.quantizer.name);
  require(
      !is_nccl || config.compression.coding().is_raw(),
      "comm.backend = \"nccl\" does not go with compression.codec.indices = \"{}\" and values = \"{}\": between GPUs "
      "lists travel as they are: expected \"{}\" and \"{}\", or \"mpi\" or \"tcp\"",
      config.compression.codec.indices.name, config.compression.codec.values.name, codec::kRawIndices,
      codec::kRawValues);
  require(
      is_nccl || comm.bootstrap == Bootstrap::kMpi,
      "comm.bootstrap = \"{}\" is of no use with comm.backend = \"{}\": expected comm.backend = \"nccl\" or \"tcp\"",
      name_of(comm.bootstrap), backend);
  const auto require_tcp = [&](const char* key, const std::string& value) {
    require(value.empty() || comm.process_backend() == Backend::kTcp,
            "comm.{} is of no use with comm.backend = \"{}\": expected comm.backend = \"tcp\", or \"nccl\" with "
            "comm.bootstrap = \"tcp\"",
            key, backend);
  };
  require_tcp("rendezvous", comm.rendezvous);
  require_tcp("secret_file", comm.secret_file);
  if (!comm.rendezvous.empty()) comm::parse_rendezvous(comm.rendezvous);
}

void check_data(const Config& config) {
  require(!config.data.entry().needs_path || !config.data.path.empty(),
          "data.path is missing: the data set {} is read from a folder", config.data.name);
}

/// Checks the model. Data sets that read files tell their shape only then, unless their format fixes it.
void check_model(const Config& config) {
  const data::DatasetEntry& data = config.data.entry();
  const Shape shape = data.shape(config.data.settings);
  if (shape.rank() > 0) make_network(config, shape, data.classes);
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

std::size_t bytes_of(double mebibytes) {
  return static_cast<std::size_t>(mebibytes * (1 << 20));
}

BucketRules bucket_rules(const CompressionConfig& compression) {
  using Grouping = BucketRules::Grouping;
  return {.grouping = compression.bucket.number                    ? Grouping::kBytes
                      : compression.bucket.is(BucketScope::kModel) ? Grouping::kModel
                                                                   : Grouping::kTensor,
          .bytes = bytes_of(compression.bucket.number.value_or(0)),
          .compress = !compression.is_dense(),
          .include_vectors = compression.include_vectors == IncludeVectors::kYes,
          .minimum_size = static_cast<std::size_t>(compression.select_tensors.number.value_or(0))};
}

ExchangeRules exchange_rules(const Config& config) {
  const CompressionConfig& compression = config.compression;
  ExchangeRules rules;
  rules.buckets = bucket_rules(compression);
  rules.fusion = {.bytes = bytes_of(compression.fusion_mib), .overlaps = compression.overlap};
  rules.sparsifier = compression.sparsifier;
  rules.quantizer = compression.quantizer;
  rules.coding = compression.coding();
  rules.collective = compression.collective;
  rules.memory = compression.memory;
  rules.dense = {"dense", Settings(Registry<comm::SparseCollectiveEntry>::instance().at("dense").settings)};
  rules.dense.settings.set("algorithm", name_of(config.comm.dense_algorithm));
  const Settings& optimizer = config.optimizer.settings;
  if (optimizer.contains("momentum")) rules.momentum = static_cast<float>(optimizer.number("momentum"));
  if (optimizer.contains("nesterov")) rules.nesterov = optimizer.flag("nesterov");
  rules.folded = compression.acc_form == AccForm::kFolded;
  rules.seed = static_cast<std::uint64_t>(config.seed);
  return rules;
}

/// Describes targets, by TargetKind.
constexpr const char* kTargets[] = {"one class per sample", "one class per time step", "a set of classes per sample",
                                    "a sequence of classes per sample"};

}  // namespace

Backend CommConfig::process_backend() const {
  if (backend != Backend::kNccl) return backend;
  return bootstrap == Bootstrap::kMpi ? Backend::kMpi : Backend::kTcp;
}

std::optional<comm::NetworkModel> NetworkConfig::modelled() const {
  if (model == NetworkKind::kNone) return std::nullopt;
  comm::NetworkModel network = preset == "none" ? comm::NetworkModel{} : comm::network_preset(preset);
  if (latency_us.number) network.latency_seconds = *latency_us.number / 1e6;
  if (gbps.number) network.bytes_per_second = *gbps.number * 1e9 / 8;
  return network;
}

std::string NetworkConfig::describe() const {
  const auto network = modelled();
  if (!network) return "";
  const bool is_preset = preset != "none" && !latency_us.number && !gbps.number;
  return network_text(network->gbps(), network->latency_us(), is_preset ? preset : "");
}

bool Config::has_momentum() const {
  return optimizer.entry().has_momentum && optimizer.settings.number("momentum") > 0;
}

std::vector<std::string> config_warnings(const Config& config) {
  std::vector<std::string> warnings = lost_entries(config.compression);
  if (quick_limit())
    warnings.push_back(fmt::format("DRAGONN_QUICK ends the run after step {}", config.train.max_steps));
  return warnings;
}

RunSpec::RunSpec(Config config) : Config(std::move(config)), rules(exchange_rules(*this)) {
  check_network(network);
  check_comm(*this);
  check_data(*this);
  check_parts(compression);
  check_memory(*this);
  check_accumulator(*this);
  check_rules(rules);
  check_model(*this);
}

data::DatasetSplits load_data(const Config& config) {
  return config.data.entry().load(config.data.settings, config.data.path, static_cast<std::uint64_t>(config.seed));
}

layers::Network make_network(const Config& config, const data::Dataset& data, Device device) {
  layers::Network network = make_network(config, data.sample_shape(), data.classes(), device);
  if (network.target_kind() != data.target_kind()) {
    throw ConfigError(fmt::format("model '{}' learns {}, but data '{}' have {}", config.model.name,
                                  kTargets[static_cast<std::size_t>(network.target_kind())], config.data.name,
                                  kTargets[static_cast<std::size_t>(data.target_kind())]));
  }
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
  return layers::Network(config.model.entry().make(config.model.settings, {sample_shape, classes}),
                         config.train.label_smoothing, device);
}

}  // namespace dragonn::trainer

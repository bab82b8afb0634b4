// SPDX-License-Identifier: MIT
#include "trainer/config/config_check.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/tcp/rendezvous.h"
#include "compress/memory.h"
#include "compress/sparsifier.h"
#include "core/error.h"
#include "core/quick.h"
#include "core/registry.h"
#include "data/dataset.h"
#include "optim/optimizer.h"
#include "trainer/config/assemble.h"

namespace dragonn::trainer {
namespace {

const optim::OptimizerEntry& optimizer_entry(const Config& config) {
  return Registry<optim::OptimizerEntry>::instance().at(config.optimizer.name);
}

const compress::MemoryEntry& memory_entry(const Config& config) {
  return Registry<compress::MemoryEntry>::instance().at(config.compression.memory.name);
}

void check_network(const NetworkConfig& network) {
  const bool has_preset = network.preset != "none";
  if (network.model == NetworkKind::kNone) {
    const bool has_compute = network.compute != comm::Compute::kMeasured;
    if (!has_preset && !network.latency_us && !network.gbps && !has_compute) return;
    throw ConfigError(
        fmt::format("network.{} is of no use with network.model = \"none\": expected network.model = \"alpha-beta\"",
                    has_preset           ? "preset"
                    : network.latency_us ? "latency_us"
                    : network.gbps       ? "gbps"
                                         : "compute"));
  }
  if (has_preset || (network.latency_us && network.gbps)) return;
  throw ConfigError(fmt::format(
      "network.model = \"{}\" lacks network.{}: expected network.latency_us and network.gbps, or network.preset = {}",
      name_of(network.model), network.latency_us ? "gbps" : "latency_us",
      fmt::join(comm::network_preset_names(), " | ")));
}

void check_path(const Config& config) {
  if (!Registry<data::DatasetEntry>::instance().at(config.data.name).needs_path || !config.data.path.empty()) return;
  throw ConfigError(fmt::format("data.path is missing: the data set {} is read from a folder", config.data.name));
}

/// What picks the entries or shortens them: a sparsifier, a quantizer, or with the method dense neither.
void check_parts(const CompressionConfig& compression) {
  const std::string& sparsifier = compression.sparsifier.name;
  const std::string& quantizer = compression.quantizer.name;
  const std::string given = fmt::format("sparsifier = \"{}\", quantizer = \"{}\"", sparsifier, quantizer);
  if (compression.is_dense()) {
    if (sparsifier == "none" && quantizer == "none" && compression.collective.name == "dense") return;
    throw ConfigError(
        fmt::format("compression.method = \"dense\" does not go with {}, collective = \"{}\": expected \"none\", "
                    "\"none\" and \"dense\", or the method \"{}\"",
                    given, compression.collective.name,
                    sparsifier != "none"  ? sparsifier
                    : quantizer != "none" ? quantizer
                                          : compression.method));
  }
  if ((sparsifier == "none") != (quantizer == "none")) return;
  throw ConfigError(
      fmt::format("compression.method = \"{}\" does not go with {}: expected a sparsifier and quantizer = \"none\", "
                  "or a quantizer and sparsifier = \"none\", or method = \"dense\"",
                  compression.method, given));
}

/// A cost model knows the times of selections.
void check_select_tensors(const CompressionConfig& compression) {
  if (compression.select_tensors != CompressionConfig::SelectTensors::kCostModel || !compression.quantizes()) return;
  throw ConfigError(
      fmt::format("compression.select_tensors = \"cost_model\" does not go with quantizer = \"{}\": "
                  "expected all or a number of elements, or a sparsifier",
                  compression.quantizer.name));
}

/// Memories that own the momentum take it from the optimizer.
void check_memory(const Config& config) {
  if (!memory_entry(config).owns_momentum || optimizer_entry(config).has_momentum) return;
  std::vector<std::string> fitting;
  const auto& memories = Registry<compress::MemoryEntry>::instance();
  for (const std::string& name : memories.names()) {
    if (!memories.at(name).owns_momentum) fitting.push_back(name);
  }
  throw ConfigError(fmt::format(
      "compression.memory = \"{}\" needs an optimizer with momentum, and optimizer.name = \"{}\" has none: expected {}",
      config.compression.memory.name, config.optimizer.name, fmt::join(fitting, " | ")));
}

/// The learning rate is inside a folded accumulator already: only updates that add the sum as it is can follow.
void check_accumulator(const Config& config) {
  if (config.compression.acc_form != AccForm::kFolded || config.compression.is_dense()) return;
  if (!optimizer_entry(config).allows_folded) {
    throw ConfigError(
        fmt::format("compression.acc_form = \"folded\" needs plain SGD, not optimizer.name = \"{}\": "
                    "expected \"raw\", or the optimizer sgd",
                    config.optimizer.name));
  }
  if (has_momentum(config) && !memory_entry(config).owns_momentum) {
    throw ConfigError(
        fmt::format("compression.acc_form = \"folded\" needs optimizer.momentum = 0, or a memory that owns the "
                    "momentum: expected momentum_correction, not compression.memory = \"{}\"",
                    config.compression.memory.name));
  }
  if (config.train.clip == Clip::kGlobal) {
    throw ConfigError(
        "train.clip = \"global\" clips gradients, and with compression.acc_form = \"folded\" steps are exchanged: "
        "expected none | local | local_sqrt_workers");
  }
}

/// What moves between GPUs without the host, and how workers meet.
void check_comm(const Config& config) {
  const CommConfig& comm = config.comm;
  if (comm.backend == Backend::kNccl && config.compression.quantizes()) {
    throw ConfigError(
        fmt::format("comm.backend = \"nccl\" does not go with quantizer = \"{}\", whose codes are "
                    "messages of the host: expected \"mpi\" or \"tcp\", or a sparsifier",
                    config.compression.quantizer.name));
  }
  if (comm.bootstrap != Bootstrap::kMpi && comm.backend != Backend::kNccl) {
    throw ConfigError(fmt::format(
        "comm.bootstrap = \"{}\" is of no use with comm.backend = \"{}\": expected comm.backend = \"nccl\" or \"tcp\"",
        name_of(comm.bootstrap), name_of(comm.backend)));
  }
  if (comm.rendezvous.empty()) return;
  if (comm.meets_by() != Backend::kTcp) {
    throw ConfigError(
        fmt::format("comm.rendezvous is of no use with comm.backend = \"{}\": expected comm.backend = \"tcp\", or "
                    "\"nccl\" with comm.bootstrap = \"tcp\"",
                    name_of(comm.backend)));
  }
  comm::parse_rendezvous(comm.rendezvous);
}

/// Data sets that read files tell their shape only then, unless their format fixes it.
void check_model(const Config& config) {
  const data::DatasetEntry& data = Registry<data::DatasetEntry>::instance().at(config.data.name);
  if (data.sample_shape.rank() > 0) make_network(config, data.sample_shape, data.classes);
}

/// A warning where what a worker does not send is lost.
std::vector<std::string> lost_entries(const CompressionConfig& compression) {
  const bool drops = compression.selects() && compression.density < 1 && compression.collective.name != "dense";
  if (!drops || compression.memory.name != "none") return {};
  const auto& sparsifier = Registry<compress::SparsifierEntry>::instance().at(compression.sparsifier.name);
  if (sparsifier.traits(compression.sparsifier.settings).rescaled)
    return {};  // unbiased: error feedback does not go with it
  return {
      fmt::format("compression.memory = \"none\" with the sparsifier {}: gradient entries that a worker does not send "
                  "are lost; compression.memory = \"residual\" sends them later",
                  compression.sparsifier.name)};
}

}  // namespace

bool has_momentum(const Config& config) {
  return optimizer_entry(config).has_momentum && config.optimizer.settings.number("momentum") > 0;
}

std::vector<std::string> config_warnings(const Config& config) {
  std::vector<std::string> warnings = lost_entries(config.compression);
  if (quick_limit())
    warnings.push_back(fmt::format("DRAGONN_QUICK ends the run after step {}", config.train.max_steps));
  return warnings;
}

void check_config(const Config& config) {
  check_network(config.network);
  check_comm(config);
  check_path(config);
  check_parts(config.compression);
  check_select_tensors(config.compression);
  check_memory(config);
  check_accumulator(config);
  check_rules(exchange_rules(config));
  check_model(config);
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/config/exchange_config.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/tcp/rendezvous.h"
#include "compress/density_schedule.h"
#include "core/error.h"
#include "trainer/config/config_keys.h"

namespace dragonn::trainer {
namespace {

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

/// Returns "none | residual | ...", the memories that leave the momentum to the optimizer. @param may_estimate whether
/// those that estimate the gradient are among them.
std::string memories_without_momentum(bool may_estimate = true) {
  const auto& memories = Registry<compress::MemoryEntry>::instance();
  std::vector<std::string> names = memories.names();
  std::erase_if(names, [&](const std::string& name) {
    return memories.at(name).owns_momentum || (memories.at(name).estimates && !may_estimate);
  });
  return fmt::format("{}", fmt::join(names, " | "));
}

/// Checks the update scheme: what belongs to gradients does not go with one that exchanges changes of parameters.
void check_update(const Config& config) {
  const UpdateTraits demands = config.update.traits();  // refuses what does not fit together
  require(demands.fragments == 1 || config.compression.is_dense() || !config.compression.bucket.is(BucketScope::kModel),
          "update.fragments = {} exchanges the model in parts, and compression.bucket = \"model\" makes it one bucket: "
          "expected tensor, a size in MiB, or update.fragments = 1",
          demands.fragments);
  require(
      config.logging.dump_gradients.empty() || (demands.fragments == 1 && demands.overlap_steps == 0),
      "logging.dump_gradients writes what a step exchanges of the whole model, and update.scheme = \"{}\" exchanges "
      "parts of it, or later: expected no steps, or update.fragments = 1 and update.overlap_steps = 0",
      config.update.scheme.name);
  require(
      !demands.skips_steps || (config.logging.trace == 0 && config.logging.dump_gradients.empty()),
      "logging.trace and logging.dump_gradients count steps that all workers make, and with update.inner_seconds or "
      "update.inner_steps_from workers leave out steps: expected logging.trace = 0 and no dump_gradients");
  if (!config.update.steps_locally()) return;
  const std::string exchanged =
      fmt::format("and update.scheme = \"{}\" exchanges changes of parameters", config.update.scheme.name);
  require(!config.compression.memory.entry().owns_momentum,
          "compression.memory = \"{}\" applies the momentum of gradients, {}: expected {}",
          config.compression.memory.name, exchanged, memories_without_momentum(/*may_estimate=*/false));
  require(!config.compression.memory.entry().estimates,
          "compression.memory = \"{}\" estimates a gradient, which changes little from step to step, {}: expected {}",
          config.compression.memory.name, exchanged, memories_without_momentum(/*may_estimate=*/false));
  require(config.compression.acc_form == AccForm::kRaw,
          "compression.acc_form = \"{}\" accumulates gradients times the learning rate, {}: expected \"raw\"",
          name_of(config.compression.acc_form), exchanged);
  require(config.train.clip != Clip::kGlobal,
          "train.clip = \"{}\" clips the mean gradient of all workers, {}: expected none | local | "
          "local_sqrt_workers, which clip in every step",
          name_of(config.train.clip), exchanged);
}

/// Checks the memory: one that owns the momentum takes it from the optimizer.
void check_memory(const Config& config) {
  require(
      !config.compression.memory.entry().owns_momentum || config.optimizer.entry().has_momentum,
      "compression.memory = \"{}\" needs an optimizer with momentum, and optimizer.name = \"{}\" has none: expected {}",
      config.compression.memory.name, config.optimizer.name, memories_without_momentum());
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
      "momentum_correction or ef21_sgdm, not compression.memory = \"{}\"",
      config.compression.memory.name);
  require(config.train.clip != Clip::kGlobal,
          "train.clip = \"global\" clips gradients, and with compression.acc_form = \"folded\" steps are exchanged: "
          "expected none | local | local_sqrt_workers");
}

/// Returns whether a key decides how gradients are exchanged between processes, or changes of local steps.
bool belongs_to_exchange(const std::string& table, const std::string& name, bool steps_locally) {
  if (table.empty()) return name == "seed";
  if (table == "update" || table.starts_with("update.")) return steps_locally;
  if (table == "network") return false;
  if (table == "logging") return name.empty() || name.starts_with("trace");
  return table == "optimizer" || table == "comm" || table == "compression" || table.starts_with("compression.");
}

/// Refuses the keys of a training run. They are valid names, or resolve_config would have refused them.
void refuse_other_keys(const RawConfig& raw, bool steps_locally) {
  constexpr const char* kExpected = "expected seed, [optimizer], [compression], [comm] or logging.trace";
  for (const RawKey& key : raw.keys) {
    require(belongs_to_exchange(key.table, key.name, steps_locally),
            "{}: {} = {}: the key has no effect on an exchange without a training run; {}", key.origin, key.path(),
            dragonn::to_toml(key.value), kExpected);
  }
  for (const RawTable& table : raw.tables) {
    require(belongs_to_exchange(table.name, "", steps_locally),
            "{}: the table [{}] has no effect on an exchange without a training run; {}", table.origin, table.name,
            kExpected);
  }
}

/// Sets optimizer.momentum to 0 unless the config says otherwise: the optimizer is another program's, and a memory that
/// owns the momentum would apply what that optimizer applies, too.
void assume_no_momentum(RawConfig& raw) {
  const auto find = [&](const std::string& path) { return std::ranges::find(raw.keys, path, &RawKey::path); };
  const auto chosen = find("optimizer.name");
  const auto* const text = chosen == raw.keys.end() ? nullptr : std::get_if<std::string>(&chosen->value);
  const std::string name = text == nullptr ? OptimizerConfig().name : *text;
  const auto& optimizers = Registry<optim::OptimizerEntry>::instance();
  if (!std::ranges::count(optimizers.names(), name) || !optimizers.at(name).has_momentum) return;
  if (find("optimizer.momentum") == raw.keys.end())
    raw.keys.push_back({.table = "optimizer", .name = "momentum", .value = 0.0, .origin = "the default"});
}

/// Refuses what needs a training run: its backward pass, its measurements, or its device.
void check_without_run(const Config& config) {
  const CompressionConfig& compression = config.compression;
  require(!compression.overlap,
          "compression.overlap = true needs a training run, whose backward pass it runs: expected false");
  require(!compression.select_tensors.is(SelectTensors::kCostModel),
          "compression.select_tensors = \"cost_model\" needs a training run: expected all or a number of elements");
  require(compression.share == Share::kEqual,
          "compression.share = \"by_link\" needs a training run: expected \"equal\"");
  require(compression.profile.empty(), "compression.profile = \"{}\" is of no use without a cost model: expected none",
          compression.profile);
  const std::string& schedule = compression.density_schedule.name;
  require(!Registry<compress::DensityScheduleEntry>::instance().at(schedule).needs_length,
          "compression.density_schedule = \"{}\" needs a training run, whose number of steps is known: expected "
          "another one",
          schedule);
  require(bytes_share(compression) == 0,
          "compression.rate.bytes_share needs a training run, whose number of steps is known: expected 0");
  require(
      !config.update.traits().skips_steps,
      "update.inner_seconds and update.inner_steps_from need a training run, whose steps they count: expected neither");
  const CommConfig& comm = config.comm;
  require(comm.backend != Backend::kNccl,
          "comm.backend = \"nccl\" needs gradients on a GPU: expected auto | mpi | tcp");
  require(comm.hierarchy != Hierarchy::kNode, "comm.hierarchy = \"node\" needs a training run: expected auto or off");
  require(comm.workers == 1,
          "comm.workers = {}: expected 1; each process is one worker, and its launcher sets their number",
          comm.workers);
}

/// Returns whether there are no schemes here.
bool has_no_schemes() {
  return Registry<UpdateSchemeEntry>::instance().names().empty();
}

}  // namespace

UpdateTraits UpdateConfig::traits() const {
  return has_no_schemes() ? UpdateTraits{} : scheme.entry().traits(scheme.settings);
}

bool UpdateConfig::steps_locally() const {
  return !has_no_schemes() && scheme.entry().steps_locally;
}

Backend CommConfig::process_backend() const {
  if (backend != Backend::kNccl) return backend;
  return bootstrap == Bootstrap::kMpi ? Backend::kMpi : Backend::kTcp;
}

bool Config::has_momentum() const {
  return optimizer.entry().has_momentum && optimizer.settings.number("momentum") > 0;
}

exchange::ExchangeRules exchange_rules(const Config& config) {
  const CompressionConfig& compression = config.compression;
  exchange::ExchangeRules rules;
  using Grouping = exchange::BucketRules::Grouping;
  const auto bytes_of = [](double mebibytes) { return static_cast<std::size_t>(mebibytes * (1 << 20)); };
  rules.buckets = {.grouping = compression.bucket.number                    ? Grouping::kBytes
                               : compression.bucket.is(BucketScope::kModel) ? Grouping::kModel
                                                                            : Grouping::kTensor,
                   .bytes = bytes_of(compression.bucket.number.value_or(0)),
                   .compress = !compression.is_dense(),
                   .include_vectors = compression.include_vectors == IncludeVectors::kYes,
                   .minimum_size = static_cast<std::size_t>(compression.select_tensors.number.value_or(0))};
  rules.buckets.fragments = config.update.traits().fragments;
  rules.fusion = {.bytes = bytes_of(compression.fusion_mib), .overlaps = compression.overlap};
  rules.sparsifier = compression.sparsifier;
  rules.quantizer = compression.quantizer;
  rules.coding = compression.coding();
  rules.collective = compression.collective;
  rules.memory = compression.memory;
  rules.dct = compression.transform == Transform::kDct;
  rules.dense = {"dense", Settings(Registry<comm::SparseCollectiveEntry>::instance().at("dense").settings)};
  rules.dense.settings.set("algorithm", name_of(config.comm.dense_algorithm));
  const Settings& optimizer = config.optimizer.settings;
  if (config.optimizer.entry().has_momentum) {
    rules.momentum = static_cast<float>(optimizer.number("momentum"));
    rules.nesterov = optimizer.flag("nesterov");
  }
  rules.folded = compression.acc_form == AccForm::kFolded;
  rules.averages_senders = config.update.traits().averages_senders;
  rules.seed = static_cast<std::uint64_t>(config.seed);
  return rules;
}

/// Refuses what an elastic run cannot redo or repeat.
void check_elastic(const Config& config) {
  const CommConfig& comm = config.comm;
  if (!comm.elastic) {
    require(config.train.global_batch == GlobalBatch::kPerWorker,
            "train.global_batch = \"constant\" is of no use with comm.elastic = false: expected comm.elastic = true");
    const char* const key = comm.min_workers != 1                                          ? "min_workers"
                            : comm.max_workers != 0                                        ? "max_workers"
                            : comm.rejoin                                                  ? "rejoin"
                            : comm.residual_copies != 0                                    ? "residual_copies"
                            : comm.residual_copy_every != CommConfig{}.residual_copy_every ? "residual_copy_every"
                            : comm.join_share != CommConfig{}.join_share                   ? "join_share"
                            : comm.coordinator != RunsCoordinator::kRankZero               ? "coordinator"
                                                                                           : nullptr;
    return require(key == nullptr, "comm.{} is of no use with comm.elastic = false: expected comm.elastic = true",
                   key == nullptr ? "" : key);
  }
  require(comm.backend == Backend::kTcp, "comm.elastic = true needs comm.backend = \"tcp\", not \"{}\"",
          name_of(comm.backend));
  require(comm.max_workers == 0 || comm.min_workers <= comm.max_workers,
          "comm.min_workers = {} is more than comm.max_workers = {}", comm.min_workers, comm.max_workers);
  require(comm.residual_copies == 0 || (config.compression.memory.entry().floats_per_element > 0 &&
                                        !config.compression.memory.entry().estimates),
          "comm.residual_copies = 1 needs a memory with a residual that stays with its worker, not \"{}\": expected "
          "compression.memory = \"residual\" or \"momentum_correction\"",
          config.compression.memory.name);
  require(
      comm.residual_copies == 0 || config.compression.transform != Transform::kDct,
      "comm.residual_copies = 1 does not go with compression.transform = \"dct\", whose residuals are in another basis "
      "than the sums: expected \"none\"");
  const auto refuse = [](bool is_set, const char* what, const char* expected) {
    require(!is_set, "comm.elastic = true does not go with {}: expected {}", what, expected);
  };
  refuse(comm.hierarchy == Hierarchy::kNode, "comm.hierarchy = \"node\", as nodes change with the workers",
         "\"auto\" or \"off\"");
  refuse(config.train.non_finite == NonFinite::kSkip, "train.non_finite = \"skip\"", "\"error\"");
  refuse(config.compression.select_tensors.is(SelectTensors::kCostModel),
         "compression.select_tensors = \"cost_model\", which measures this group of workers", "\"all\", or elements");
  refuse(config.update.traits().skips_steps, "update.inner_seconds or update.inner_steps_from", "neither");
  refuse(config.update.traits().delays || config.update.traits().overlap_steps > 0,
         "update.delay_steps or update.overlap_steps", "0");
  refuse(config.logging.trace > 0 || !config.logging.dump_gradients.empty() || config.logging.tensorboard,
         "logging.trace, logging.dump_gradients or logging.tensorboard", "none of them");
}

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
  require(!is_nccl || !config.update.traits().averages_senders,
          "update.average = \"senders\" does not go with comm.backend = \"nccl\", as the host counts senders: expected "
          "\"ranks\", or \"mpi\" or \"tcp\"");
  require(
      !is_nccl || comm.hierarchy != Hierarchy::kNode,
      "comm.hierarchy = \"node\" does not go with comm.backend = \"nccl\": expected \"auto\" or \"off\", or \"mpi\" or "
      "\"tcp\"");
  require(comm.hierarchy != Hierarchy::kNode || !config.compression.select_tensors.is(SelectTensors::kCostModel),
          "comm.hierarchy = \"node\" does not go with compression.select_tensors = \"cost_model\", whose costs are of "
          "one level: expected \"auto\" or \"off\", or all tensors");
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
  check_elastic(config);
}

namespace {

/// Checks what can be known of unlike shares before the workers are.
void check_shares(const Config& config, exchange::ExchangeRules rules) {
  require(!config.network.up_gbps.empty() || config.network.links,
          "compression.share = \"by_link\" needs the rates of the links: expected network.model = \"alpha-beta\" and "
          "network.up_gbps, with a rate for each node, or network.file");
  require(rules.selects(),
          "compression.share = \"by_link\" needs a sparsifier: expected a method that selects entries");
  rules.shares = {1};
  exchange::check_rules(rules);
}

/// Checks that densities can spend a budget of bytes.
void check_budget(const CompressionConfig& compression) {
  require(bytes_share(compression) == 0 || density_decides(compression),
          "compression.rate.bytes_share = {}: \"{}\" selects what it selects, whatever the density; expected 0, or "
          "another method",
          bytes_share(compression), compression.method);
}

/// Returns shares in proportion to these rates whose mean is 1, except that none is below `least`.
std::vector<double> level_shares(std::vector<double> rates, double least) {
  // Whoever is raised takes from the others, which may bring the slowest of them below in turn.
  std::vector<double> ascending = rates;
  std::ranges::sort(ascending);
  double rest = std::accumulate(rates.begin(), rates.end(), 0.0), left = static_cast<double>(rates.size());
  for (const double rate : ascending) {
    if (rate * left >= least * rest) break;
    rest -= rate;
    left -= least;
  }
  for (double& rate : rates) rate = std::max(least, rate * left / rest);
  return rates;
}

/// Returns the share of each sender: a worker, or with two levels a node.
std::vector<double> link_shares(const Config& config, const comm::Nodes& nodes, bool by_node) {
  const comm::NodeLinks links = config.network.node_links(nodes.ranks());
  require(!by_node || std::cmp_equal(links.up.size(), nodes.count()),
          "network.{} has {} rates, and the workers are on {} nodes: expected one for each node",
          config.network.links ? "file" : "up_gbps", links.up.size(), nodes.count());
  std::vector<double> shares;
  for (std::size_t node = 0; node < links.up.size(); ++node) {
    const int workers = by_node || links.workers.empty() ? 1 : links.workers[node];
    shares.insert(shares.end(), static_cast<std::size_t>(workers), links.up[node] / workers);
  }
  return level_shares(std::move(shares), config.compression.least_share);
}

}  // namespace

exchange::ExchangeRules rules_on(const RunSpec& config, const comm::Nodes& nodes) {
  const CommConfig& comm = config.comm;
  const bool suits = comm.backend != Backend::kNccl && !comm.elastic && !config.compression.is_dense() &&
                     !config.compression.select_tensors.is(SelectTensors::kCostModel) && nodes.count() > 1 &&
                     nodes.places() > 1;
  exchange::ExchangeRules rules = config.rules;
  const bool has_levels =
      nodes.most() > 1 && comm.hierarchy != Hierarchy::kOff && (comm.hierarchy == Hierarchy::kNode || suits);
  if (has_levels) {
    rules.nodes = nodes;
    rules.buckets.pieces = static_cast<std::size_t>(nodes.places());
  }
  if (config.compression.share == Share::kByLink) rules.shares = link_shares(config, nodes, has_levels);
  return rules;
}

void check_exchange(const Config& config, const exchange::ExchangeRules& rules) {
  check_parts(config.compression);
  check_update(config);
  check_memory(config);
  check_accumulator(config);
  exchange::check_rules(rules);
  if (config.compression.share == Share::kByLink) check_shares(config, rules);
  check_budget(config.compression);
}

double density_at(const CompressionConfig& compression, std::uint64_t epoch, std::uint64_t exchange,
                  std::uint64_t exchanges, double rate_share) {
  if (!compression.selects()) return 1.0;
  return compress::density_at(compression.density_schedule.name, compression.density_schedule.settings,
                              {.density = compression.density,
                               .epoch = static_cast<std::size_t>(epoch),
                               .step = exchange,
                               .steps = exchanges,
                               .rate_share = rate_share});
}

std::vector<double> sparse_densities(const CompressionConfig& compression, std::uint64_t steps,
                                     std::uint64_t steps_per_epoch, std::uint64_t steps_per_exchange) {
  std::vector<double> densities;
  const auto add = [&](double density) {
    const bool known = !densities.empty() && densities.back() == density;
    if (density < 1 && !known && !std::ranges::count(densities, density)) densities.push_back(density);
  };
  if (is_by_rate(compression)) {
    constexpr double kStep = 0.99, kLeast = 1e-9;  // finer, and lower, than the rates at which a schedule changes
    for (double share = 1; share > kLeast; share *= kStep) add(density_at(compression, 0, 0, 0, share));
    return densities;
  }
  const std::uint64_t exchanges = (steps + steps_per_exchange - 1) / steps_per_exchange;
  for (std::uint64_t step = 0; step < steps; ++step)
    add(density_at(compression, step / steps_per_epoch, step / steps_per_exchange, exchanges, 1));
  return densities;
}

bool is_by_rate(const CompressionConfig& compression) {
  const std::string& schedule = compression.density_schedule.name;
  return compression.selects() && Registry<compress::DensityScheduleEntry>::instance().at(schedule).by_rate;
}

bool density_decides(const CompressionConfig& compression) {
  return compression.selects() && std::isfinite(compression.sparsifier.entry().band.high);
}

double bytes_share(const CompressionConfig& compression) {
  const Settings& settings = compression.density_schedule.settings;
  return compression.selects() && settings.contains(compress::kBytesShare) ? settings.number(compress::kBytesShare) : 0;
}

RunSpec parse_exchange_config(const std::string& text, const std::string& name) {
  RawConfig raw = read_toml(text, name);
  assume_no_momentum(raw);
  RunSpec spec;
  static_cast<Config&>(spec) = resolve_config(raw, {}, /*complete=*/false);
  refuse_other_keys(raw, spec.update.steps_locally());
  try {
    spec.rules = exchange_rules(spec);
    check_comm(spec);
    check_exchange(spec, spec.rules);
    check_without_run(spec);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", name, error.what()));
  }
  return spec;
}

}  // namespace dragonn::trainer

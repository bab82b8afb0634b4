// SPDX-License-Identifier: MIT
#include "program/plan.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/launcher.h"
#include "comm/machine.h"
#include "comm/measure_pairs.h"
#include "comm/mpi/mpi.h"
#include "comm/network_file.h"
#include "comm/nodes.h"
#include "comm/tcp/tcp.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/exchange_config.h"
#include "trainer/planner/planner.h"

namespace dragonn::program {
namespace {

namespace fs = std::filesystem;
using trainer::require;

/// A network that launched workers have measured between them.
struct MeasuredNetwork {
  int rank = 0, workers = 1;
  comm::NodeLinks links = {};
};

/// Runs as one of the launched processes until they have measured their network.
MeasuredNetwork measure_launched(const trainer::CommConfig& config) {
  MeasuredNetwork measured;
  const auto run_rank = [&](comm::Communicator& communicator) {
    require(communicator.size() > 1, "--measure: one worker was launched: expected 2 or more");
    const int per_node = static_cast<int>(config.workers_per_node);
    const comm::Nodes nodes =
        per_node > 0 ? comm::Nodes::of_size(communicator.size(), per_node) : comm::find_nodes(communicator);
    measured = {communicator.rank(), communicator.size(), comm::measure_pairs(communicator, nodes)};
  };
  if (config.process_backend() == trainer::Backend::kTcp) {
    comm::run_tcp(comm::tcp_options(config.rendezvous, config.timeout_s, config.secret_file), run_rank);
  } else {
    require(
        comm::launched_by_mpi(),
        "--measure: this process was not launched as one of several workers: expected mpirun -np P dragonn plan ..., "
        "srun, or comm.backend = \"tcp\" with RANK and WORLD_SIZE");
    comm::run_mpi({.timeout_s = config.timeout_s, .start_timeout_s = config.start_timeout_s}, run_rank);
  }
  return measured;
}

/// Returns the overrides that name a network file.
std::vector<std::string> settings_of_network_file(const fs::path& file) {
  return {"network.model=alpha-beta", fmt::format("network.file={}", to_toml(SettingValue(file.string())))};
}

/// Returns the overrides that a file stands for: a network file, or the table [network], with or without its header.
std::vector<std::string> settings_of(const fs::path& file) {
  if (file.extension() == ".json") return settings_of_network_file(file);
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  const trainer::RawConfig raw = trainer::read_toml(read_text_file(file, kMostBytes), file.string());
  std::vector<std::string> settings{"network.model=alpha-beta"};
  for (const trainer::RawKey& key : raw.keys) {
    require(key.table.empty() || key.table == "network", "{}: {}: expected keys of the table [network] alone",
            key.origin, key.path());
    settings.push_back(fmt::format("network.{}={}", key.name, to_toml(key.value)));
  }
  require(!raw.keys.empty(), "--network {}: no keys: expected those of the table [network], as gbps and latency_us",
          file.string());
  return settings;
}

/// Returns a config on another network than its own, if there is one. Its computing stays, and overrides win.
trainer::RawConfig on_network(trainer::RawConfig raw, const std::vector<std::string>& network,
                              const std::vector<std::string>& overrides) {
  if (network.empty()) return raw;
  std::erase_if(raw.keys, [](const trainer::RawKey& key) {
    return key.table == "network" && key.name != "compute" && key.name != "step_ms" && key.name != "slowest";
  });
  for (const std::string& setting : network) apply_override(raw, setting);
  for (const std::string& setting : overrides) apply_override(raw, setting);
  return raw;
}

class PlanCommand {
 public:
  explicit PlanCommand(CLI::App& command) {
    command.add_option("CONFIG", config_, "The config of the run")->required();
    command.add_option("--set", overrides_, "Set a key, as train.batch_size=8 (repeatable)")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    command.add_option("--plugin", plugins_, "Load a shared object with components of your own (repeatable)")
        ->type_name("FILE")
        ->allow_extra_args(false);
    command.add_option("--workers", workers_, "Number of workers, instead of comm.workers")
        ->check(CLI::Range(2, 4096))
        ->type_name("P");
    auto* const network = command.add_option_group("network", "At most one; without one the config's [network]");
    network->add_option("--network", network_, "Network file (JSON), or TOML file with the keys of the table [network]")
        ->type_name("FILE");
    network
        ->add_option("--measure", measured_,
                     "Measure the network of the launched workers, and write it to this network file")
        ->type_name("FILE");
    network->require_option(0, 1);
    command
        .add_option(
            "--step-seconds", request_.step_seconds,
            "Time of forward and backward of a step; without it network.step_ms, or some steps are measured here")
        ->check(CLI::PositiveNumber)
        ->type_name("S");
    command
        .add_option("--seconds", request_.search.seconds,
                    "Time in which candidates are tried (60), before the best are tried again")
        ->check(CLI::PositiveNumber)
        ->type_name("S");
    command
        .add_option("--worse", request_.candidates.most_worse_percent,
                    "Percent by which a measured result may lie behind dense to be proposed (3)")
        ->check(CLI::NonNegativeNumber)
        ->type_name("PERCENT");
    command.add_flag("--unmeasured", request_.candidates.unmeasured,
                     "Also propose settings whose convergence was never measured");
    command.add_option("--memory", memory_gb_, "Gigabytes (10^9) that a worker may take")
        ->check(CLI::PositiveNumber)
        ->type_name("GB");
    command.add_option("--proposals", request_.proposals, "Number of proposals, of different methods (3)")
        ->check(CLI::Range(1, 100))
        ->type_name("N");
    command.add_flag("--all", request_.search.try_all, "Try every candidate, and write the times of all to --json");
    command.add_option("--output", output_, "Write the config with the first proposal to this TOML file")
        ->type_name("FILE");
    command.add_flag("--force", force_, "Replace the files of --output and --measure");
    command
        .add_option("--json", json_, "Write the plan as JSON to a file; -: the standard output, in place of the text")
        ->type_name("FILE|-");
  }

  int run() {
    log::set_level(log::Level::kWarning);
    for (const std::string& file : plugins_) trainer::load_plugin_methods(file, "--plugin " + file);
    require(measured_.empty() || !workers_, "--workers does not go with --measure, which counts the launched workers");
    std::vector<std::string> own = overrides_;
    if (workers_) own.push_back(fmt::format("comm.workers={}", *workers_));
    require_new("--output", output_);
    require_new("--measure", measured_);
    if (memory_gb_) request_.memory_bytes = *memory_gb_ * 1e9;
    std::vector<std::string> assumed;
    if (!network_.empty()) assumed = settings_of(network_);
    if (!measured_.empty()) {
      const MeasuredNetwork measured = measure_launched(trainer::load_comm_config(config_, own));
      if (measured.rank != 0) return 0;
      write_file_atomically(measured_, comm::network_file_text(measured.links, "measured by dragonn plan --measure"));
      assumed = settings_of_network_file(measured_);
      assumed.push_back(fmt::format("comm.workers={}", measured.workers));
    }
    const trainer::ConfigVariants file(trainer::read_raw_config(config_, own));
    const trainer::ConfigVariants variants(on_network(trainer::read_raw_config(config_, own), assumed, own));
    const trainer::Plan plan = trainer::make_plan(variants, trainer::all_evidence(), request_);
    if (json_ != "-") fmt::print("{}", trainer::describe(plan));
    if (!json_.empty()) write_json(trainer::to_json(plan, request_.search.try_all));
    require(output_.empty() || !plan.proposals.empty(), "--output {}: there is nothing to propose", output_.string());
    if (!output_.empty()) write_file_atomically(output_, trainer::to_toml(plan, plan.proposals.front(), file));
    return 0;
  }

 private:
  void require_new(const char* option, const fs::path& file) const {
    require(file.empty() || force_ || !fs::exists(file), "{} {}: the file exists: expected another name, or --force",
            option, file.string());
  }
  void write_json(const std::string& text) const {
    if (json_ == "-") {
      fmt::print("{}", text);
    } else {
      write_file_atomically(json_, text);
    }
  }

  std::string config_, json_;
  fs::path network_, measured_, output_;
  std::vector<std::string> overrides_, plugins_;
  std::optional<int> workers_;
  std::optional<double> memory_gb_;
  bool force_ = false;
  trainer::PlanRequest request_;
};

}  // namespace

std::function<int()> declare_plan(CLI::App& command) {
  return [work = std::make_shared<PlanCommand>(command)] { return work->run(); };
}

}  // namespace dragonn::program

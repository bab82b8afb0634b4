// SPDX-License-Identifier: MIT
/// `dragonn-train`: trains a network from a config file, on local workers, under mpirun and srun, or as processes that
/// TCP connects.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "comm/launcher.h"
#include "comm/local/local.h"
#include "comm/mpi/mpi.h"
#include "comm/tcp/tcp.h"
#include "core/error.h"
#include "core/log.h"
#include "core/program.h"
#include "trainer/command_line.h"
#include "trainer/config/config.h"
#include "trainer/config/exchange_config.h"
#include "trainer/run/byte_budget.h"
#include "trainer/run/device_choice.h"
#include "trainer/run/elastic.h"
#include "trainer/run/generation.h"
#include "trainer/run/plan.h"
#include "trainer/run/run.h"
#include "trainer/run/signals.h"

namespace {

using namespace dragonn;
using namespace dragonn::trainer;
namespace fs = std::filesystem;
using comm::CollectiveError;

std::vector<std::string> overrides_of(const CommandLine& line) {
  std::vector<std::string> overrides = line.overrides;
  if (line.workers > 0) overrides.push_back(fmt::format("comm.workers={}", line.workers));
  return overrides;
}

void load_named_plugins(const CommandLine& line) {
  for (const std::string& file : line.plugins) load_plugin_methods(file, "--plugin " + file);
}

RunSpec load(const CommandLine& line) {
  load_named_plugins(line);
  const bool shows_defaults =
      line.config.empty() && line.print_config != PrintConfig::kNo && !line.dry_run && line.named_run().empty();
  const std::vector<std::string> overrides = overrides_of(line);
  RunSpec config = shows_defaults ? default_config(overrides) : load_config(line.config_file(), overrides);
  if (const auto quick = quick_limit()) {
    const std::int64_t steps = config.train.max_steps;
    config.train.max_steps = steps > 0 ? std::min(steps, *quick) : *quick;
  }
  return config;
}

/// Returns what is left of a config that cannot be read: how the ranks are connected, so that they can tell each other.
RunSpec connection_of(const CommandLine& line) {
  RunSpec config;
  try {
    config.comm = load_comm_config(line.config_file(), overrides_of(line));
  } catch (const std::exception&) {
    // The error that all learn is that of the whole config.
  }
  return config;
}

fs::path output_folder(const CommandLine& line, const RunSpec& config) {
  if (!line.output.empty()) return line.output;
  // A run that is resumed by its folder, or by a checkpoint in it, continues there.
  if (!line.resume.empty() && line.resume != "auto") {
    const std::string named = line.named_run();
    return named.empty() ? fs::path(line.resume).lexically_normal().parent_path().parent_path() : fs::path(named);
  }
  return fs::path("runs") / fmt::format("{}-{}", fs::path(line.config).stem().string(), config.compression.method);
}

Job make_job(const CommandLine& line, RunSpec config) {
  choose_device(config);  // an error comes before a long read of data
  Job job;
  job.folder = {output_folder(line, config)};
  job.resume = line.resume;
  job.data = load_data(config);
  job.config = std::move(config);
  return job;
}

int run_rank(const CommandLine& line, const Job& job, comm::Communicator& communicator) {
  if (line.evaluate.empty()) return run_training(job, communicator);
  run_evaluation(job, line.evaluate, communicator);
  return 0;
}

/// Returns whether the options ask for something that one process does by itself.
bool is_for_one(const CommandLine& line) {
  return line.print_config != PrintConfig::kNo || line.dry_run || !line.export_file.empty();
}

/// Prints the plan of a run. A budget of bytes needs the data, whose size is the length of the run.
void print_plan(RunSpec config, const comm::Nodes& nodes) {
  const DeviceChoice choice = choose_device(config);
  const auto network = make_network(config, choice.device);
  std::optional<ByteBudget> budget;
  if (bytes_share(config.compression) > 0)
    budget = byte_budget(config, network, steps_per_epoch(config, *load_data(config).train, nodes.ranks()), nodes);
  if (budget) {
    check(*budget, config);
    apply(*budget, config);
  }
  auto plan = plan_run(config, network, nodes, choice.device);
  add_selection(plan, config, network.arena(), nodes.ranks(), choice.device);
  fmt::print("device: {}\n{}", choice.describe(), describe(plan, config, nodes.ranks()));
  if (budget) fmt::print("\n{}\n", describe(*budget, config));
}

/// Runs the options that only print, or export; true if there was one.
bool run_for_one(const CommandLine& line, const RunSpec& config, const comm::Nodes& nodes) {
  if (is_for_one(line)) {
    for (const std::string& note : config.notes) log::info(0, "{}", note);
  }
  if (line.print_config != PrintConfig::kNo) fmt::print("{}", to_toml(config));
  if (line.print_config == PrintConfig::kAll) fmt::print("{}", other_settings(config));
  if (line.dry_run) print_plan(config, nodes);
  if (!line.export_file.empty()) run_export(config, line.from, line.export_file);
  return is_for_one(line);
}

int run_locally(const CommandLine& line, RunSpec config) {
  log::set_level(config.logging.level);
  const int workers = static_cast<int>(config.comm.workers);
  if (run_for_one(line, config, given_nodes(config, workers))) return 0;
  require(config.comm.backend != Backend::kMpi && config.comm.backend != Backend::kNccl,
          "comm.backend = \"{}\" needs a launcher: mpirun -np P dragonn-train ..., or srun{}",
          name_of(config.comm.backend), config.comm.backend == Backend::kNccl ? "; or comm.bootstrap = \"tcp\"" : "");
  const Job job = make_job(line, std::move(config));
  int exit_code = 0;
  comm::run_local(workers, local_options(job.config, workers), [&](comm::Communicator& communicator) {
    const int code = run_rank(line, job, communicator);
    if (communicator.rank() == 0) exit_code = code;
  });
  return exit_code;
}

using RankFunction = std::function<void(comm::Communicator&)>;

/// Runs as one process of several, which `run_ranks` connects. If this one cannot read its config, all learn it.
int run_as_process(const CommandLine& line, const RunSpec& config, const std::exception_ptr& unreadable,
                   const std::function<void(const RankFunction&)>& run_ranks) {
  log::set_level(config.logging.level);
  int exit_code = 0;
  run_ranks([&](comm::Communicator& communicator) {
    try {
      comm::throw_everywhere(communicator, unreadable);
      if (is_for_one(line)) {
        const comm::Nodes nodes = find_nodes(config, communicator);
        comm::rank_zero_or_none(communicator, [&] { run_for_one(line, config, nodes); });
        return;
      }
      Job job;
      comm::all_ranks_or_none(communicator, [&] { job = make_job(line, config); });
      exit_code = run_rank(line, job, communicator);
    } catch (const CollectiveError& error) {
      // Every rank is here, so one prints for all. The others wait until it has, since a launcher ends all processes as
      // soon as one of them fails.
      if (communicator.rank() == 0) log::error(0, "{}", error.what());
      communicator.barrier();
      exit_code = error.exit_code();
    }
  });
  return exit_code;
}

/// Runs under MPI. The config is read before MPI starts, since it holds the deadline of MPI's waits; a rank that cannot
/// read it tells the others through MPI.
int run_by_mpi(const CommandLine& line, const RunSpec& config, std::exception_ptr unreadable) {
  if (!unreadable && config.comm.backend == Backend::kLocal) {
    unreadable = std::make_exception_ptr(ConfigError(
        "comm.backend = \"local\" does not go with a launcher: start dragonn-train without one, or set \"mpi\""));
  }
  try {
    return run_as_process(line, config, unreadable, [&](const RankFunction& fn) {
      comm::run_mpi({.timeout_s = config.comm.timeout_s, .start_timeout_s = config.comm.start_timeout_s}, fn);
    });
  } catch (const CommError&) {
    // A launcher that this MPI does not know leaves every process alone with its error.
    if (unreadable) std::rethrow_exception(unreadable);
    throw;
  }
}

int run_by_tcp(const CommandLine& line, const RunSpec& config, const std::exception_ptr& unreadable) {
  try {
    const auto tcp = comm::tcp_options(config.comm.rendezvous, config.comm.timeout_s, config.comm.secret_file);
    return run_as_process(line, config, unreadable, [&](const RankFunction& fn) { comm::run_tcp(tcp, fn); });
  } catch (const CollectiveError&) {
    throw;
  } catch (const Error&) {
    // Ranks that do not find each other have their own errors first.
    if (unreadable) std::rethrow_exception(unreadable);
    throw;
  }
}

/// Runs as a member of an elastic run. Rank 0's process runs the coordinator, too, unless that is a process of its own.
int run_as_member(const CommandLine& line, const RunSpec& config) {
  log::set_level(config.logging.level);
  require(line.evaluate.empty(), "--evaluate does not go with comm.elastic = true: expected --set comm.elastic=false");
  const auto tcp = comm::tcp_options(config.comm.rendezvous, config.comm.timeout_s, config.comm.secret_file);
  const Job job = make_job(line, config);
  std::jthread serving;
  if (tcp.rank == 0 && config.comm.coordinator == RunsCoordinator::kRankZero) {
    comm::CoordinatorOptions options = coordinator_options(config.comm, tcp.size);
    options.host = tcp.rank;
    auto coordinator = std::make_unique<comm::RunCoordinator>(options);
    serving = std::jthread([served = std::move(coordinator)](const std::stop_token& stop) { served->serve(stop); });
  }
  const int exit_code = run_elastic(job, tcp.rank);
  if (serving.joinable()) serving.join();  // until the others have ended, too
  return exit_code;
}

int run(const CommandLine& line) {
  if (line.list) {
    load_named_plugins(line);
    if (!line.config.empty()) load_plugins_of(line.config, line.overrides);
    fmt::print("{}", list_components(*line.list));
    return 0;
  }
  StopSignals::install();
  RunSpec config;
  std::exception_ptr unreadable;
  try {
    config = load(line);
  } catch (const std::exception&) {
    unreadable = std::current_exception();
    config = connection_of(line);
  }
  const bool by_tcp = config.comm.process_backend() == Backend::kTcp;
  // They need no other process.
  const bool alone = (unreadable || is_for_one(line)) && !comm::detect_process();
  if (by_tcp && config.comm.elastic && !unreadable && !is_for_one(line)) return run_as_member(line, config);
  if (by_tcp && !alone) return run_by_tcp(line, config, unreadable);
  if (!by_tcp && comm::launched_by_mpi()) return run_by_mpi(line, config, unreadable);
  if (unreadable) std::rethrow_exception(unreadable);
  return run_locally(line, std::move(config));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    CommandLine line;
    if (const auto code = parse_command_line(argc, argv, line)) return *code;
    return run(line);
  } catch (const CollectiveError& error) {
    log::error(0, "{}", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    log::error(0, "{}", error.what());
    return exit_code(error);
  }
}

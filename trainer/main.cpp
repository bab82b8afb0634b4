// SPDX-License-Identifier: MIT
/// dragonn-train: trains a network from a config file, on local workers, under mpirun and srun, or as processes that
/// meet over TCP.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "comm/launcher.h"
#include "comm/local.h"
#include "comm/mpi.h"
#include "comm/tcp.h"
#include "core/error.h"
#include "core/log.h"
#include "core/version.h"
#include "trainer/agreement.h"
#include "trainer/assemble.h"
#include "trainer/device_choice.h"
#include "trainer/list.h"
#include "trainer/plan.h"
#include "trainer/run.h"
#include "trainer/signals.h"

namespace {

namespace fs = std::filesystem;
using dragonn::ConfigError;
using dragonn::trainer::AgreedError;
using dragonn::trainer::Config;
using dragonn::trainer::Job;

struct Options {
  std::string config;
  std::vector<std::string> overrides;
  int workers = 0;
  std::string output;
  std::string resume;
  std::string evaluate;
  bool print_config = false;
  bool dry_run = false;
  bool list = false;
};

void declare(CLI::App& app, Options& options) {
  app.add_option("CONFIG", options.config, "TOML file that describes the run");
  app.add_option("--set", options.overrides, "Override a key: a.b=value, a TOML value or else a string (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--workers", options.workers,
                 "Local workers, instead of comm.workers (under mpirun or srun every process is a worker)")
      ->type_name("P")
      ->check([](const std::string& text) {
        const bool positive = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos &&
                              text.find_first_not_of('0') != std::string::npos && text.size() < 6;
        return positive ? std::string() : fmt::format("expected a number of workers, not '{}'", text);
      });
  app.add_option("--output", options.output,
                 "Run folder (default: runs/CONFIG-METHOD); an earlier run there is kept in DIR/earlier-N")
      ->type_name("DIR");
  app.add_option(
         "--resume", options.resume,
         "Go on from the newest checkpoint in --output if there is one (auto), or from a checkpoint or run folder")
      ->type_name("auto|DIR");
  app.add_option("--evaluate", options.evaluate,
                 "Evaluate a checkpoint or run folder on the test split, print JSON, exit")
      ->type_name("CHECKPOINT");
  app.add_flag("--print-config", options.print_config, "Print the resolved config with every key explained, and exit");
  app.add_flag("--dry-run", options.dry_run, "Print layers, memory, buckets and bytes per step, and exit");
  app.add_flag("--list", options.list, "Print every model, dataset, optimizer, method and their parts, and exit");
  app.set_version_flag("--version", std::string(dragonn::version()));
  app.footer(
      "Exit codes: 0 done, 1 the run failed, 2 bad usage or config, 75 stopped by SIGTERM, SIGINT or SIGUSR1 with a "
      "checkpoint.");
}

Config load(const Options& options) {
  if (options.config.empty()) throw ConfigError("no config file given; usage: dragonn-train CONFIG.toml (see --help)");
  Config config = dragonn::trainer::load_config(options.config, options.overrides);
  if (options.workers > 0) config.comm.workers = options.workers;
  return config;
}

dragonn::log::Level log_level(const std::string& name) {
  using dragonn::log::Level;
  if (name == "debug") return Level::kDebug;
  if (name == "warning") return Level::kWarning;
  return name == "error" ? Level::kError : Level::kInfo;
}

fs::path output_folder(const Options& options, const Config& config) {
  if (!options.output.empty()) return options.output;
  // A run that is resumed by its folder, or by a checkpoint in it, goes on there.
  if (!options.resume.empty() && options.resume != "auto") {
    const fs::path given = fs::path(options.resume).lexically_normal();
    return fs::is_directory(given / "checkpoints") ? given : given.parent_path().parent_path();
  }
  return fs::path("runs") / fmt::format("{}-{}", fs::path(options.config).stem().string(), config.compression.method);
}

Job make_job(const Options& options, Config config) {
  dragonn::trainer::choose_device(config);  // an error comes before a long read of data
  Job job;
  job.folder = {output_folder(options, config)};
  job.resume = options.resume;
  job.data = dragonn::trainer::load_data(config);
  job.config = std::move(config);
  return job;
}

void print_plan(const Config& config, int world_size) {
  const dragonn::trainer::DeviceChoice choice = dragonn::trainer::choose_device(config);
  const auto& entry = dragonn::Registry<dragonn::data::DatasetEntry>::instance().at(config.data.name);
  dragonn::Shape sample_shape = entry.sample_shape;
  int classes = entry.classes;
  if (sample_shape.rank() == 0 || classes == 0) {
    const dragonn::data::DatasetSplits data = dragonn::trainer::load_data(config);
    sample_shape = data.train->sample_shape();
    classes = data.train->classes();
  }
  auto plan = dragonn::trainer::plan_run(config, sample_shape, classes, world_size, choice.device);
  dragonn::trainer::add_selection(plan, config, world_size, choice.device);
  fmt::print("device: {}\n{}", choice.describe(), dragonn::trainer::describe(plan, config, world_size));
}

/// The part of one rank, on any backend.
int run_rank(const Options& options, const Job& job, dragonn::comm::Communicator& communicator) {
  if (options.evaluate.empty()) return dragonn::trainer::run_training(job, communicator);
  dragonn::trainer::run_evaluation(job, options.evaluate, communicator);
  return 0;
}

/// Options that only print; true if there was one.
bool print_only(const Options& options, const Config& config, int world_size) {
  if (options.print_config) fmt::print("{}", dragonn::trainer::to_toml(config));
  if (options.dry_run) print_plan(config, world_size);
  return options.print_config || options.dry_run;
}

int run_locally(const Options& options, Config config) {
  dragonn::log::set_level(log_level(config.logging.level));
  const int workers = static_cast<int>(config.comm.workers);
  if (print_only(options, config, workers)) return 0;
  if (config.comm.backend == "mpi" || config.comm.backend == "nccl") {
    throw ConfigError(fmt::format("comm.backend = \"{}\" needs a launcher: mpirun -np P dragonn-train ..., or srun{}",
                                  config.comm.backend,
                                  config.comm.backend == "nccl" ? "; or comm.bootstrap = \"tcp\"" : ""));
  }
  const Job job = make_job(options, std::move(config));
  int exit_code = 0;
  dragonn::comm::run_local(workers, dragonn::trainer::local_options(job.config),
                           [&](dragonn::comm::Communicator& communicator) {
                             const int code = run_rank(options, job, communicator);
                             if (communicator.rank() == 0) exit_code = code;
                           });
  return exit_code;
}

using RankFunction = std::function<void(dragonn::comm::Communicator&)>;

/// As one process of several, which `run_ranks` brings together. A config that this one cannot read is told to all.
int run_as_process(const Options& options, const Config& config, const std::exception_ptr& unreadable,
                   const std::function<void(const RankFunction&)>& run_ranks) {
  dragonn::log::set_level(log_level(config.logging.level));
  int rank = 0;
  int exit_code = 0;
  try {
    run_ranks([&](dragonn::comm::Communicator& communicator) {
      rank = communicator.rank();
      dragonn::trainer::agree(communicator, unreadable);
      if (options.print_config || options.dry_run) {
        if (rank == 0) print_only(options, config, communicator.size());
        return;
      }
      Job job;
      dragonn::trainer::all_ranks_or_none(communicator, [&] { job = make_job(options, config); });
      exit_code = run_rank(options, job, communicator);
    });
  } catch (const AgreedError& error) {
    // Every rank is here: one speaks for all.
    if (rank == 0) dragonn::log::error(0, "{}", error.what());
    return error.exit_code();
  }
  return exit_code;
}

/// The config is read ahead of MPI, whose waits have its deadline; a rank that cannot read it says so through MPI.
int run_by_mpi(const Options& options, const Config& config, std::exception_ptr unreadable) {
  if (!unreadable && config.comm.backend == "local") {
    unreadable = std::make_exception_ptr(
        ConfigError("comm.backend = \"local\" does not go with a launcher: start dragonn-train alone, or set \"mpi\""));
  }
  try {
    return run_as_process(options, config, unreadable, [&](const RankFunction& fn) {
      dragonn::comm::run_mpi({.timeout_s = config.comm.timeout_s}, fn);
    });
  } catch (const dragonn::CommError&) {
    // A launcher that this MPI does not know leaves every process alone with its error.
    if (unreadable) std::rethrow_exception(unreadable);
    throw;
  }
}

int run_by_tcp(const Options& options, const Config& config) {
  const auto tcp = dragonn::comm::tcp_options(config.comm.rendezvous, config.comm.timeout_s);
  return run_as_process(options, config, nullptr, [&](const RankFunction& fn) { dragonn::comm::run_tcp(tcp, fn); });
}

int run(const Options& options) {
  if (options.list) {
    fmt::print("{}", dragonn::trainer::list_components());
    return 0;
  }
  const dragonn::trainer::StopSignals signals;
  Config config;
  std::exception_ptr unreadable;
  try {
    config = load(options);
  } catch (const std::exception&) {
    unreadable = std::current_exception();
  }
  const bool by_tcp = !unreadable && config.comm.meets_by() == "tcp";
  // What is only printed needs no other process.
  const bool alone = (options.print_config || options.dry_run) && !dragonn::comm::detect_process();
  if (by_tcp && !alone) return run_by_tcp(options, config);
  if (!by_tcp && dragonn::comm::launched_by_mpi()) return run_by_mpi(options, config, unreadable);
  if (unreadable) std::rethrow_exception(unreadable);
  return run_locally(options, std::move(config));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a network data-parallel with dense or sparsified gradient exchange.", "dragonn-train");
  Options options;
  declare(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return run(options);
  } catch (const AgreedError& error) {
    dragonn::log::error(0, "{}", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    dragonn::log::error(0, "{}", error.what());
    return dragonn::exit_code(error);
  }
}

// SPDX-License-Identifier: MIT
/// `dragonn-bench`: runs one of the registered benchmarks and prints its rows.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/benchmark.h"
#include "bench/command_line.h"
#include "bench/ranks.h"
#include "comm/agreement.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/program.h"
#include "core/program_pages.h"
#include "trainer/config/methods.h"

namespace {

using namespace dragonn;
using namespace dragonn::bench;

constexpr int kUsageError = 2;

/// The options of every subcommand.
struct Options {
  std::vector<std::string> plugins;
  std::string json_target;
  bool wide = false;
  double progress_seconds = 5;
};

using Benchmarks = std::map<std::string, std::unique_ptr<Benchmark>>;

void declare_common(CLI::App& command, Options& options) {
  command.add_option("--json", options.json_target, "Also write the rows as a JSON array to FILE (-: standard output)")
      ->type_name("FILE");
  command.add_option("--plugin", options.plugins, "Load a shared object with components of your own (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command.add_flag("--wide", options.wide, "Show all columns in the table (the JSON always has them)");
  command
      .add_option("--progress-every", options.progress_seconds,
                  "Seconds between two progress lines on the standard error (a terminal's line is rewritten sooner)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e9));
}

Benchmarks declare(CLI::App& program, Options& options) {
  program.option_defaults()->always_capture_default();  // the help shows them, of subcommands too
  program.require_subcommand(1);
  program.set_version_flag("--version", version_line("dragonn-bench"), "Print the version and exit");
  program.set_help_flag("--help,-h", "Print this help and exit");
  program.footer(examples_text({"step --model resnet20 --threads 1",
                                "compress --sparsifier all --density 0.01 --json -", "network"}) +
                 "\nOptions and examples of a subcommand: dragonn-bench SUBCOMMAND --help\n"
                 "DRAGONN_QUICK=N in the environment: N rounds over small sizes, to try a command");
  Benchmarks benchmarks;
  const auto& registry = Registry<BenchmarkEntry>::instance();
  for (const std::string& name : registry.names()) {
    const BenchmarkEntry& entry = registry.at(name);
    CLI::App* command = program.add_subcommand(name, entry.summary);
    command->footer(examples_text(entry.examples));
    declare_common(*command, options);
    benchmarks[name] = entry.make();
    benchmarks[name]->declare_options(*command);
  }
  return benchmarks;
}

void report(const std::string& name, const Benchmark& benchmark, const Rows& rows, const Options& options) {
  if (!is_first_rank()) return;
  // The table must not mix with JSON on the standard output.
  std::FILE* const stream = options.json_target == "-" ? stderr : stdout;
  if (options.wide) {
    print_wide_table(rows, stream);
  } else {
    print_table(rows, Registry<BenchmarkEntry>::instance().at(name).table, stream);
  }
  for (const std::string& remark : benchmark.remarks()) fmt::print(stream, "{}\n", remark);
  if (!options.json_target.empty()) write_json(rows, options.json_target);
}

void run(const std::string& name, Benchmark& benchmark, const Options& options) {
  const auto folder = std::filesystem::path(options.json_target).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw ConfigError(fmt::format("--json {}: there is no folder {}", options.json_target, folder.string()));
  }
  for (const std::string& file : options.plugins) trainer::load_plugin_methods(file, "--plugin " + file);
  Rows rows;
  {
    Progress progress(name, is_first_rank(), options.progress_seconds);
    rows = benchmark.run(progress);
  }
  report(name, benchmark, rows, options);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Measures parts of dragonn on this machine.", "dragonn-bench");
  Options options;
  const Benchmarks benchmarks = declare(program, options);
  if (const auto page = generated_page(program, argc, argv, {"dragonn-train(1)"})) {
    fmt::print("{}", *page);
    return 0;
  }
  try {
    std::vector<std::string> arguments = shortened({argv + 1, argv + argc}, program);
    std::ranges::reverse(arguments);  // as CLI11 takes them
    program.parse(std::move(arguments));
    const std::string name = program.get_subcommands().front()->get_name();
    run(name, *benchmarks.at(name), options);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);
    if (is_first_rank()) fmt::print(stderr, "{}\n", usage_error(program, error));
    return kUsageError;
  } catch (const comm::CollectiveError& error) {
    if (is_first_rank()) fmt::print(stderr, "dragonn-bench: {}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    if (is_first_rank()) fmt::print(stderr, "dragonn-bench: {}\n", printable(error.what()));
    return exit_code(error);
  }
  return 0;
}

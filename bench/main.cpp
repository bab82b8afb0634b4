// SPDX-License-Identifier: MIT
/// dragonn-bench: runs one of the registered benchmarks and prints its rows.
#include <exception>
#include <map>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/benchmark.h"
#include "bench/ranks.h"
#include "core/error.h"
#include "trainer/agreement.h"

namespace {

using namespace dragonn;
using namespace dragonn::bench;

constexpr int kUsageError = 2;

void report(const Rows& rows, const std::string& json_target) {
  if (!is_first_rank()) return;
  // The table must not mix with JSON on the standard output.
  print_table(rows, json_target == "-" ? stderr : stdout);
  if (!json_target.empty()) write_json(rows, json_target);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Measures parts of dragonn on this machine.", "dragonn-bench");
  program.require_subcommand(1);
  std::string json_target;
  std::map<std::string, std::unique_ptr<Benchmark>> benchmarks;
  const auto& registry = Registry<BenchmarkEntry>::instance();
  for (const std::string& name : registry.names()) {
    CLI::App* command = program.add_subcommand(name, registry.at(name).summary);
    command->add_option("--json", json_target, "also write the rows as a JSON array to this file, or - for stdout");
    benchmarks[name] = registry.at(name).make();
    benchmarks[name]->declare_options(*command);
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : kUsageError;
  }
  try {
    report(benchmarks.at(program.get_subcommands().front()->get_name())->run(), json_target);
  } catch (const trainer::AgreedError& error) {
    if (is_first_rank()) fmt::print(stderr, "dragonn-bench: {}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    if (is_first_rank()) fmt::print(stderr, "dragonn-bench: {}\n", error.what());
    return exit_code(error);
  }
  return 0;
}

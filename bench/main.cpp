// SPDX-License-Identifier: MIT
/// `dragonn-bench`: runs one of the registered benchmarks and prints its rows.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/benchmark.h"
#include "bench/options.h"
#include "comm/agreement.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/program.h"
#include "core/program_pages.h"
#include "core/settings.h"
#include "trainer/config/config.h"

namespace {

using namespace dragonn;
using namespace dragonn::bench;

constexpr int kUsageError = 2;

std::vector<std::string> subcommand_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string describe_unknown(const CLI::App& program, const CLI::App& command, const std::string& argument) {
  if (argument.starts_with('-')) {
    const std::string name = argument.substr(0, argument.find('='));
    std::vector<std::string> options;
    for (const CLI::Option* option : command.get_options())
      for (const std::string& word : option->get_lnames()) options.push_back("--" + word);
    const auto nearest = nearest_name(name, options);
    return fmt::format("unknown option '{}'; {}valid options: {} --help", name,
                       nearest ? fmt::format("did you mean '{}'? ", *nearest) : "",
                       &program == &command ? "dragonn-bench" : "dragonn-bench " + command.get_name());
  }
  if (&program == &command) return unknown_name_message("subcommand", argument, subcommand_names(program));
  return fmt::format("unexpected argument '{}'; every value follows an option: dragonn-bench {} --help", argument,
                     command.get_name());
}

/// Cuts the numbers of a list: "4,8,64" with 8 is "4,8". Any other text is left to the parser's error.
std::string limited(const std::string& list, std::int64_t largest) {
  std::vector<std::int64_t> values;
  const char* const end = list.data() + list.size();
  for (const char* begin = list.data(); begin <= end;) {
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || (rest != end && *rest != ',')) return list;
    value = std::min(value, largest);
    if (!std::ranges::count(values, value)) values.push_back(value);
    begin = rest + 1;
  }
  return fmt::format("{}", fmt::join(values, ","));
}

/// Splits "--rounds=3" into the words of "--rounds 3".
void split_at_equals(std::vector<std::string>& arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    if (!arguments[i].starts_with("--") || equals == std::string::npos) continue;
    arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments[i].substr(equals + 1));
    arguments[i].resize(equals);
  }
}

/// Returns one line, without an end: the program or its subcommand, the problem, and the nearest valid name.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = program.get_subcommands();
  const CLI::App& command = chosen.empty() ? program : *chosen.front();
  const std::string speaker = chosen.empty() ? "dragonn-bench" : "dragonn-bench " + command.get_name();
  const auto* const extras = dynamic_cast<const CLI::ExtrasError*>(&error);
  if (extras != nullptr || chosen.empty()) {
    std::vector<std::string> left = program.remaining(/*recurse=*/true);
    std::ranges::copy(command.remaining(/*recurse=*/true), std::back_inserter(left));
    if (!left.empty()) return fmt::format("{}: {}", speaker, describe_unknown(program, command, left.front()));
  }
  if (chosen.empty())
    return fmt::format("{}: no subcommand; valid: {}", speaker, fmt::join(subcommand_names(program), ", "));
  std::string what = error.what();
  std::ranges::replace(what, '\n', ' ');
  return fmt::format("{}: {}", speaker, what);
}

/// Returns the foot of a help text: command lines that a user may type.
std::string examples_text(const std::vector<std::string>& examples) {
  std::string text = "Examples:";
  for (const std::string& example : examples) text += "\n  dragonn-bench " + example;
  return text;
}

/// Returns the arguments of dragonn-bench, the subcommand first, with small sizes and few rounds if DRAGONN_QUICK is
/// set; otherwise unchanged. Reports that on the standard error. @throws ConfigError for a value of DRAGONN_QUICK that
/// is no number.
std::vector<std::string> shortened(std::vector<std::string> arguments, const CLI::App& program) {
  const auto rounds = quick_limit();
  if (!rounds || arguments.empty()) return arguments;
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == arguments.front(); };
  const std::vector<const CLI::App*> commands = program.get_subcommands(is_named);
  if (commands.empty()) return arguments;
  split_at_equals(arguments);
  const bool has_input = std::ranges::count(arguments, "--input") > 0;
  constexpr std::int64_t kLargestSize = 1 << 16, kMaxRanks = 8;
  struct Limit {
    const char* option;
    std::int64_t largest;
    bool is_added;  // where the option is not given, too
  };
  const Limit limits[] = {{"--rounds", *rounds, true},         {"--steps", *rounds, true},
                          {"--warmup", *rounds, true},         {"--numel", kLargestSize, !has_input},
                          {"--max-numel", kLargestSize, true}, {"--ranks", kMaxRanks, false}};
  for (const auto& [option, largest, is_added] : limits) {
    if (commands.front()->get_option_no_throw(option) == nullptr) continue;
    const auto given = std::ranges::find(arguments, option);
    if (given == arguments.end()) {
      if (is_added) arguments.insert(arguments.end(), {option, std::to_string(largest)});
    } else if (given + 1 != arguments.end()) {
      given[1] = limited(given[1], largest);
    }
  }
  fmt::print(stderr, "dragonn-bench: DRAGONN_QUICK: small sizes, few rounds; the numbers mean nothing\n");
  return arguments;
}

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
  if (options.json_target.empty()) return;
  const std::string document = benchmark.document();
  if (document.empty())
    write_json(rows, options.json_target);
  else
    write_text(document, options.json_target);
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

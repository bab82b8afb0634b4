// SPDX-License-Identifier: MIT
#include "bench/command_line.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/program.h"
#include "core/settings.h"

namespace dragonn::bench {
namespace {

std::vector<std::string> subcommand_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// Returns the options with their dashes, as a user types them.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// Returns the first argument that neither the program nor its subcommand took.
std::optional<std::string> unknown_argument(const CLI::App& program, const CLI::App& command) {
  std::vector<std::string> left = program.remaining(/*recurse=*/true);
  const std::vector<std::string> of_command = command.remaining(/*recurse=*/true);
  left.insert(left.end(), of_command.begin(), of_command.end());
  if (left.empty()) return std::nullopt;
  return left.front();
}

std::string describe_unknown(const CLI::App& program, const CLI::App& command, const std::string& argument) {
  if (argument.starts_with('-')) {
    const std::string name = argument.substr(0, argument.find('='));
    const auto nearest = nearest_name(name, option_names(command));
    return fmt::format("unknown option '{}'; {}valid options: {} --help", name,
                       nearest ? fmt::format("did you mean '{}'? ", *nearest) : "",
                       &program == &command ? "dragonn-bench" : "dragonn-bench " + command.get_name());
  }
  if (&program == &command) return unknown_name_message("subcommand", argument, subcommand_names(program));
  return fmt::format("unexpected argument '{}'; every value follows an option: dragonn-bench {} --help", argument,
                     command.get_name());
}

constexpr std::int64_t kLargestSize = 1 << 16;
constexpr std::int64_t kMaxRanks = 8;

struct Limit {
  const char* option;
  std::int64_t largest;
  bool is_added;  ///< where the option is not given, too
};

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

}  // namespace

std::string usage_error(const CLI::App& program, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = program.get_subcommands();
  const CLI::App& command = chosen.empty() ? program : *chosen.front();
  const std::string speaker = chosen.empty() ? "dragonn-bench" : "dragonn-bench " + command.get_name();
  const auto* const extras = dynamic_cast<const CLI::ExtrasError*>(&error);
  if (extras != nullptr || chosen.empty()) {
    const auto argument = unknown_argument(program, command);
    if (argument) return fmt::format("{}: {}", speaker, describe_unknown(program, command, *argument));
  }
  if (chosen.empty())
    return fmt::format("{}: no subcommand; valid: {}", speaker, fmt::join(subcommand_names(program), ", "));
  std::string what = error.what();
  std::ranges::replace(what, '\n', ' ');
  return fmt::format("{}: {}", speaker, what);
}

std::string examples_text(const std::vector<std::string>& examples) {
  std::string text = "Examples:";
  for (const std::string& example : examples) text += "\n  dragonn-bench " + example;
  return text;
}

std::vector<std::string> shortened(std::vector<std::string> arguments, const CLI::App& program) {
  const auto rounds = quick_limit();
  if (!rounds || arguments.empty()) return arguments;
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == arguments.front(); };
  const std::vector<const CLI::App*> commands = program.get_subcommands(is_named);
  if (commands.empty()) return arguments;
  split_at_equals(arguments);
  const bool has_input = std::ranges::count(arguments, "--input") > 0;
  const Limit limits[] = {{"--rounds", *rounds, true},         {"--steps", *rounds, true},
                          {"--warmup", *rounds, true},         {"--numel", kLargestSize, !has_input},
                          {"--max-numel", kLargestSize, true}, {"--ranks", kMaxRanks, false}};
  for (const Limit& limit : limits) {
    if (commands.front()->get_option_no_throw(limit.option) == nullptr) continue;
    const auto given = std::ranges::find(arguments, limit.option);
    if (given == arguments.end()) {
      if (limit.is_added) arguments.insert(arguments.end(), {limit.option, std::to_string(limit.largest)});
    } else if (given + 1 != arguments.end()) {
      given[1] = limited(given[1], limit.largest);
    }
  }
  fmt::print(stderr, "dragonn-bench: DRAGONN_QUICK: small sizes, few rounds; the numbers mean nothing\n");
  return arguments;
}

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
#include "bench/usage.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

}  // namespace dragonn::bench

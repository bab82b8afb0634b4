// SPDX-License-Identifier: MIT
/// Program pages: manual page and completions of a program, made from what its command line declares. A build asks each
/// program for them (`--generate man|bash|zsh`, an option that help texts do not show), so that they cannot differ.
#pragma once

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dragonn {

/// An option or a positional argument.
struct OptionText {
  std::vector<std::string> names;  ///< "-h", "--help"; of a positional its one name
  bool is_positional = false;
  bool is_repeatable = false;
  bool takes_value = false;
  std::string value;          ///< name of the value with its valid values as CLI11 writes both: "TEXT:{cpu,cuda}"
  std::string default_value;  ///< empty if there is none to show
  std::string help;
  std::string group;  ///< heading
};

/// A program or a subcommand.
struct ProgramText {
  std::string name;
  std::string summary;
  std::string footer;
  std::vector<OptionText> options;
  std::vector<ProgramText> commands;
  bool is_program = false;  ///< of a subcommand: it is a program of its own, PROGRAM-SUBCOMMAND
};

/// The words that complete an option's value, by its name ("--set"). A word that ends with "=" is completed further, by
/// words that begin with it.
using WordLists = std::map<std::string, std::vector<std::string>>;

/// Returns a text as roff that shows it literally.
std::string roff(std::string_view text);
/// Returns the manual page of section 1. @param related pages to see, as "dragonn-bench(1)".
std::string man_page(const ProgramText& program, const std::vector<std::string>& related);
/// Returns a script for the folder completions/ of bash-completion.
std::string bash_completion(const ProgramText& program, const WordLists& words);
/// Returns a function file for zsh's fpath.
std::string zsh_completion(const ProgramText& program, const WordLists& words);

/// Describes a program or a subcommand. @param app a CLI::App; a template, so that this folder needs no CLI11.
template <class App>
ProgramText describe_program(const App& app) {
  ProgramText program{.name = app.get_name(),
                      .summary = app.get_description(),
                      .footer = app.get_footer(),
                      .options = {},
                      .commands = {},
                      .is_program = app.get_prefix_command()};
  for (const auto* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    OptionText text{.names = {},
                    .is_positional = !option->nonpositional(),
                    .is_repeatable = option->get_expected_max() > 1 || option->get_items_expected_max() > 1,
                    .takes_value = option->get_items_expected_max() > 0,
                    .value = option->get_type_name(),
                    .default_value = option->get_default_str(),
                    .help = option->get_description(),
                    .group = option->get_group()};
    for (const std::string& name : option->get_snames()) text.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) text.names.push_back("--" + name);
    if (text.is_positional) text.names.push_back(option->get_name(true));
    program.options.push_back(std::move(text));
  }
  for (const auto* command : app.get_subcommands([](const auto*) { return true; })) {
    program.commands.push_back(describe_program(*command));
  }
  return program;
}

/// Returns the page that the command line asks for by `--generate man|bash|zsh` and nothing else; nothing if it does
/// not.
template <class App>
std::optional<std::string> generated_page(const App& app, int argc, const char* const* argv,
                                          const std::vector<std::string>& related, const WordLists& words = {}) {
  if (argc != 3 || std::string_view(argv[1]) != "--generate") return std::nullopt;
  const std::string_view kind = argv[2];
  if (kind == "man") return man_page(describe_program(app), related);
  if (kind == "bash") return bash_completion(describe_program(app), words);
  if (kind == "zsh") return zsh_completion(describe_program(app), words);
  return std::nullopt;
}

}  // namespace dragonn

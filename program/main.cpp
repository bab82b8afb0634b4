// SPDX-License-Identifier: MIT
/// `dragonn`: runs one of the registered subcommands.
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/printable.h"
#include "core/program.h"
#include "core/program_pages.h"
#include "program/call.h"
#include "program/subcommand.h"
#include "trainer/config/config.h"
#include "trainer/list.h"

namespace {

using namespace dragonn;
using namespace dragonn::program;

constexpr int kUsageError = 2;

using Subcommands = std::map<std::string, std::unique_ptr<Subcommand>>;

std::string examples_text(const std::vector<std::string>& examples) {
  std::string text = "Examples:";
  for (const std::string& example : examples) text += "\n  dragonn " + example;
  return text;
}

Subcommands declare(CLI::App& app) {
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print this text");
  app.set_version_flag("--version", version_line("dragonn"), "Print the version");
  app.footer(examples_text({"train configs/mnist_mlp.toml --workers 4", "evaluate runs/a", "list dgc"}) +
             "\nOptions of a subcommand: dragonn SUBCOMMAND --help");
  Subcommands subcommands;
  const auto& registry = Registry<SubcommandEntry>::instance();
  for (const std::string& name : registry.names()) {
    const SubcommandEntry& entry = registry.at(name);
    CLI::App* command = app.add_subcommand(name, entry.summary);
    command->prefix_command(!entry.make);
    if (!entry.make) continue;
    if (!entry.examples.empty()) command->footer(examples_text(entry.examples));
    subcommands[name] = entry.make();
    subcommands[name]->declare_options(*command);
  }
  return subcommands;
}

/// Returns the error of CLI11 on one line, with the subcommand that it is about.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const std::string name = chosen.empty() ? "" : " " + chosen.front()->get_name();
  return fmt::format("dragonn{}: {}; see dragonn{} --help", name, printable(error.what()), name);
}

int run(const std::vector<std::string>& words, CLI::App& app, const Subcommands& subcommands) {
  const auto& registry = Registry<SubcommandEntry>::instance();
  if (words.empty()) throw ConfigError(fmt::format("no subcommand; valid: {}", fmt::join(registry.names(), ", ")));
  if (!words.front().starts_with('-') && !registry.at(words.front()).make) {
    call_program("dragonn-" + words.front(), {words.begin() + 1, words.end()});
  }
  app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // as CLI11 takes them
  return subcommands.at(app.get_subcommands().front()->get_name())->run();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains neural networks data-parallel with sparsified gradients.", "dragonn");
  const Subcommands subcommands = declare(app);
  if (const auto page = generated_page(app, argc, argv, {"dragonn-train(1)", "dragonn-bench(1)", "dragonn-compare(1)"},
                                       {{"--set", trainer::config_words()}, {"KIND", trainer::component_kinds()}})) {
    fmt::print("{}", *page);
    return 0;
  }
  try {
    return run({argv + 1, argv + argc}, app, subcommands);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "{}\n", usage_error(app, error));
    return kUsageError;
  } catch (const std::exception& error) {
    fmt::print(stderr, "dragonn: {}\n", printable(error.what()));
    return exit_code(error);
  }
}

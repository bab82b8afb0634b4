// SPDX-License-Identifier: MIT
/// `dragonn`: runs one of its subcommands. Each is a program of the same folder, or asks dragonn-train for something,
/// or does its own work.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "core/printable.h"
#include "core/program.h"
#include "core/program_pages.h"
#include "core/settings.h"
#include "program/elastic.h"
#include "program/plan.h"
#include "program/sample.h"
#include "program/tokenize.h"
#include "trainer/command_line.h"
#include "trainer/config/config.h"

namespace {

using namespace dragonn;
using program::declare_coordinator;
using program::declare_plan;
using program::declare_replay;
using program::declare_sample;
using program::declare_tokenize;

constexpr int kUsageError = 2;

/// The values of all subcommands' options; those that are not given stay empty.
struct Words {
  std::string config, run, file, kind, name, workers;
  bool all = false;
  std::vector<std::string> overrides = {}, plugins = {};
};

struct Subcommand {
  std::string name;
  std::string summary;
  std::vector<std::string> examples = {};  ///< command lines for the help, without the program's name
  /// Declares the options. Empty: the subcommand is a program of its own, `dragonn-NAME`, which gets all further
  /// arguments.
  std::function<void(CLI::App& command, Words& words)> declare = {};
  /// Returns what dragonn-train is asked for.
  std::function<std::vector<std::string>(const Words& words)> arguments = {};
  /// Declares the options of a subcommand that does its own work, and returns that work, which returns the exit code.
  std::function<std::function<int()>(CLI::App& command)> own = {};

  bool is_program() const { return !declare && !own; }
};

/// Declares the options that a subcommand shares with dragonn-train.
void declare_keys(CLI::App& command, Words& words) {
  command.add_option("--set", words.overrides, "Set a key, as train.batch_size=8 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.add_option("--plugin", words.plugins, "Load a shared object with components of your own (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

/// Declares the options of a subcommand that works on a run.
void declare_run(CLI::App& command, Words& words) {
  command.add_option("RUN_DIR", words.run, "Run folder, of which the newest checkpoint counts, or a checkpoint")
      ->required();
  command.add_option("--config", words.config, "Read this config instead of the run's config.toml")
      ->type_name("CONFIG");
  declare_keys(command, words);
}

/// Returns the subcommands, names ascending.
const std::vector<Subcommand>& subcommands() {
  static const std::vector<Subcommand> all{
      {"bench", "Measure parts of dragonn on this machine (dragonn-bench)"},
      {"compare", "Compare training runs (dragonn-compare)"},
      {"config",
       "Print every key of a config with meaning and value",
       {"config", "config run.toml --set train.epochs=3"},
       [](CLI::App& command, Words& words) {
         command.add_option("CONFIG", words.config, "The config; without it the defaults are printed");
         command.add_flag("--all", words.all, "Also print the settings of components that the config does not name");
         declare_keys(command, words);
       },
       [](const Words& words) {
         return std::vector<std::string>{words.all ? "--print-config=all" : "--print-config"};
       }},
      {"coordinator",
       "Decide who trains together in an elastic run",
       {"coordinator run.toml --workers 8 --set comm.rendezvous=tcp:host1:4000"},
       {},
       {},
       declare_coordinator},
      {"evaluate",
       "Evaluate a run on the test split and print JSON",
       {"evaluate runs/a", "evaluate runs/a/checkpoints/step-00000100"},
       [](CLI::App& command, Words& words) {
         declare_run(command, words);
         command.add_option("--workers", words.workers, "Number of local workers, instead of comm.workers")
             ->type_name("P");
       },
       [](const Words& words) {
         std::vector<std::string> arguments{"--evaluate", words.run};
         if (!words.workers.empty()) arguments.insert(arguments.end(), {"--workers", words.workers});
         return arguments;
       }},
      {"export",
       "Write a run's weights to a safetensors file",
       {"export runs/a a.safetensors"},
       [](CLI::App& command, Words& words) {
         declare_run(command, words);
         command.add_option("FILE", words.file, "The safetensors file to write, in PyTorch's layouts")->required();
       },
       [](const Words& words) {
         return std::vector<std::string>{"--export", words.file, "--from", words.run};
       }},
      {"list",
       "List models, data sets, methods and their settings",
       {"list", "list methods", "list dgc"},
       [](CLI::App& command, Words& words) {
         command.add_option("KIND", words.kind, "Models, methods, ... or a table of a config (data, compression, ...)");
         command.add_option("NAME", words.name, "The one whose settings, paper and traffic to print");
         command.add_option("--config", words.config, "Also list the plug-ins of this config")->type_name("CONFIG");
         declare_keys(command, words);
       },
       [](const Words& words) {
         std::vector<std::string> arguments{"--list", words.kind, words.name};
         std::erase(arguments, "");
         return arguments;
       }},
      {"plan",
       "Say what to set for a config on a network",
       {"plan run.toml", "plan run.toml --network slow.toml --workers 8 --output planned.toml",
        "plan run.toml --step-seconds 0.12 --unmeasured"},
       {},
       {},
       declare_plan},
      {"replay",
       "Repeat an elastic run on local workers, to the same bits",
       {"replay runs/a", "replay runs/a --until 120 --member 2"},
       {},
       {},
       declare_replay},
      {"sample",
       "Continue a text with a trained language model",
       {"sample runs/gpt --prompt \"Once upon a time\" --temperature 0.8 --top-k 50",
        "sample runs/gpt --prompt - --tokens 500 < beginning.txt"},
       {},
       {},
       declare_sample},
      {"tokenize",
       "Turn text files into shards of tokens for training",
       {"tokenize book.txt --output tokens --train 8192 --held-out 0.1",
        "tokenize *.txt --output tokens --tokenizer gpt2 --invalid replace"},
       {},
       {},
       declare_tokenize},
      {"train", "Train a network (dragonn-train)"},
  };
  return all;
}

/// Returns the subcommand of that name. @throws ConfigError that lists the valid names.
const Subcommand& find_subcommand(const std::string& name) {
  const auto found = std::ranges::find(subcommands(), name, &Subcommand::name);
  if (found != subcommands().end()) return *found;
  std::vector<std::string> names;
  for (const Subcommand& subcommand : subcommands()) names.push_back(subcommand.name);
  if (name.empty()) throw ConfigError(fmt::format("no subcommand; valid: {}", fmt::join(names, ", ")));
  throw ConfigError(unknown_name_message("subcommand", name, names));
}

std::string examples_text(const std::vector<std::string>& examples) {
  std::string text = "Examples:";
  for (const std::string& example : examples) text += "\n  dragonn " + example;
  return text;
}

/// The work of the subcommands that do it themselves, by name.
using OwnWork = std::map<std::string, std::function<int()>>;

OwnWork declare(CLI::App& app, Words& words) {
  OwnWork work;
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print this text");
  app.set_version_flag("--version", version_line("dragonn"), "Print the version");
  app.footer(examples_text({"train configs/mnist_mlp.toml --workers 4", "evaluate runs/a", "list dgc"}) +
             "\nOptions of a subcommand: dragonn SUBCOMMAND --help");
  for (const Subcommand& subcommand : subcommands()) {
    CLI::App* command = app.add_subcommand(subcommand.name, subcommand.summary);
    command->prefix_command(subcommand.is_program());
    if (subcommand.is_program()) continue;
    command->footer(examples_text(subcommand.examples));
    if (subcommand.declare) subcommand.declare(*command, words);
    if (subcommand.own) work[subcommand.name] = subcommand.own(*command);
  }
  return work;
}

/// Replaces this process by a program of the same folder. @throws ConfigError if it cannot be started.
[[noreturn]] void call_program(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string path = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
  std::vector<char*> words{const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execv(path.c_str(), words.data());
  throw ConfigError(fmt::format("cannot start {}: {}", path, std::strerror(errno)));
}

int run(const std::vector<std::string>& line, CLI::App& app, const Words& words, const OwnWork& own_work) {
  const std::string first = line.empty() ? "" : line.front();
  if (!first.starts_with('-') && find_subcommand(first).is_program()) {
    call_program("dragonn-" + first, {line.begin() + 1, line.end()});
  }
  app.parse(std::vector<std::string>(line.rbegin(), line.rend()));  // as CLI11 takes them
  const std::string chosen = app.get_subcommands().front()->get_name();
  if (const auto own = own_work.find(chosen); own != own_work.end()) return own->second();
  std::vector<std::string> arguments = find_subcommand(chosen).arguments(words);
  if (!words.config.empty()) arguments.insert(arguments.begin(), words.config);
  for (const std::string& text : words.overrides) arguments.insert(arguments.end(), {"--set", text});
  for (const std::string& file : words.plugins) arguments.insert(arguments.end(), {"--plugin", file});
  call_program("dragonn-train", arguments);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains neural networks data-parallel with sparsified gradients.", "dragonn");
  Words words;
  const OwnWork own_work = declare(app, words);
  if (const auto page = generated_page(app, argc, argv, {"dragonn-train(1)", "dragonn-bench(1)", "dragonn-compare(1)"},
                                       {{"--set", trainer::config_words()}, {"KIND", trainer::component_kinds()}})) {
    fmt::print("{}", *page);
    return 0;
  }
  try {
    return run({argv + 1, argv + argc}, app, words, own_work);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const auto chosen = app.get_subcommands();
    const std::string name = chosen.empty() ? "" : " " + chosen.front()->get_name();
    fmt::print(stderr, "dragonn{}: {}; see dragonn{} --help\n", name, printable(error.what()), name);
    return kUsageError;
  } catch (const std::exception& error) {
    fmt::print(stderr, "dragonn: {}\n", printable(error.what()));
    return exit_code(error);
  }
}

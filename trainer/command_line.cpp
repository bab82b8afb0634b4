// SPDX-License-Identifier: MIT
#include "trainer/command_line.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/error.h"
#include "core/program.h"
#include "core/program_pages.h"
#include "core/settings.h"
#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"
#include "trainer/run/run.h"

namespace dragonn::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRun = "Run";
constexpr const char* kResume = "Resume, evaluate and export";
constexpr const char* kInspect = "Inspect";

constexpr const char* kAllSettings = "all";

constexpr const char* kFooter =
    R"(Examples:
  dragonn-train configs/mnist_mlp.toml --workers 4
  dragonn-train run.toml --set compression.method=dgc --set train.epochs=3
  dragonn-train run.toml --output runs/a --resume auto  continue after a stop
  dragonn-train --evaluate runs/a                       test its last checkpoint
  dragonn-train --export a.safetensors --from runs/a    weights for PyTorch
  mpirun -np 4 dragonn-train run.toml                   one process per worker
  dragonn-train --list dgc                              settings, paper, traffic
  dragonn-train run.toml --plugin mine.so --set compression.method=mine

DRAGONN_QUICK=N in the environment ends every run after N steps, to try a
command.

Exit codes: 0 done; 1 the run failed; 2 wrong usage or config;
75 stopped by SIGTERM, SIGINT or SIGUSR1 after saving a checkpoint.)";

std::string check_workers(const std::string& text) {
  const bool positive = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos &&
                        text.find_first_not_of('0') != std::string::npos && text.size() < 6;
  return positive ? std::string() : fmt::format("expected a number of workers, not '{}'", text);
}

/// The column at which descriptions begin. They are broken by hand, since CLI11 does not wrap them.
constexpr std::size_t kOptionColumns = 24;

void declare_run(CLI::App& app, CommandLine& line) {
  app.add_option("CONFIG", line.config,
                 "TOML file that describes the run; a run folder given to\n--resume, --evaluate or --from has its own")
      ->type_name("");
  app.add_option("--set", line.overrides, "Set a key, as train.epochs=3 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->group(kRun);
  app.add_option("--plugin", line.plugins,
                 "Load a shared object with components of your own,\nadded to those that CONFIG names (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group(kRun);
  app.add_option("--workers", line.workers,
                 "Number of local workers, instead of comm.workers;\nunder mpirun or srun each process is a worker")
      ->type_name("P")
      ->check(check_workers)
      ->group(kRun);
  app.add_option("--output", line.output,
                 "Run folder (default: runs/CONFIG-METHOD); files of an\nearlier run there are moved to DIR/earlier-N")
      ->type_name("DIR")
      ->group(kRun);
  app.add_option("--resume", line.resume,
                 "Resume from the newest checkpoint in --output, if any\n(auto), or from a checkpoint or run folder")
      ->type_name("auto|DIR")
      ->group(kResume);
  app.add_option("--evaluate", line.evaluate,
                 "Evaluate a checkpoint, or the newest one of a run\nfolder, on the test split; print JSON and exit\n"
                 "(also: dragonn evaluate DIR)")
      ->type_name("DIR")
      ->excludes("--resume")
      ->group(kResume);
  CLI::Option* file = app.add_option("--export", line.export_file,
                                     "Write the weights of --from to a safetensors file, in\nPyTorch's layouts, and "
                                     "exit\n(also: dragonn export DIR FILE)")
                          ->type_name("FILE")
                          ->excludes("--resume")
                          ->excludes("--evaluate")
                          ->group(kResume);
  CLI::Option* from = app.add_option("--from", line.from, "Checkpoint, or run folder with a newest one, to export")
                          ->type_name("DIR")
                          ->needs(file)
                          ->group(kResume);
  file->needs(from);
}

/// @param list, print receive the words of --list and --print-config.
void declare_inspect(CLI::App& app, CommandLine& line, std::vector<std::string>& list, std::string& print) {
  app.add_option(
         "--list", list,
         "List all components, or those of a KIND (models,\nmethods, ...) or of a table (data, compression, ...);\n"
         "with NAME the settings, paper and traffic of one\n(also: dragonn list)")
      ->type_name("[KIND] [NAME]")
      ->expected(0, 2)
      ->group(kInspect);
  app.add_flag("--print-config", print,
               "Print every key with meaning, type, range, default and\nvalue, without CONFIG the defaults;\n"
               "--print-config=all adds the settings of components\nthat CONFIG does not name (also: dragonn config)")
      ->check([](const std::string& text) {
        const bool known = text == "true" || text == kAllSettings;
        return known ? std::string() : fmt::format("expected nothing or =all, not '{}'", text);
      })
      ->group(kInspect);
  app.add_flag("--dry-run", line.dry_run, "Print layers, memory, buckets and bytes per step")->group(kInspect);
  app.set_help_flag("-h,--help", "Print this text")->group(kInspect);
  app.set_version_flag("--version", version_line("dragonn-train"), "Print the version")->group(kInspect);
}

/// Refuses "--epochs=3" or "--epochs" "3" with a hint at --set. @param rest the words that no option took.
[[noreturn]] void refuse(const CLI::App& app, std::span<const char* const> words, const std::vector<std::string>& rest,
                         const CommandLine& line) {
  const auto option = std::ranges::find_if(rest, [](const std::string& word) { return word.starts_with('-'); });
  if (option == rest.end()) {
    throw ConfigError(fmt::format("unexpected argument '{}': CONFIG is {} already; see dragonn-train --help",
                                  rest.front(), line.config));
  }
  const std::size_t equals = option->find('=');
  const std::string name = option->substr(0, equals);
  std::vector<std::string> options;
  for (const CLI::Option* known : app.get_options()) {
    if (!known->get_lnames().empty()) options.push_back("--" + known->get_lnames().front());
  }
  std::string key = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::ranges::replace(key, '-', '_');
  std::string hint;
  if (const auto nearest = nearest_name(name, options)) {
    hint = fmt::format("did you mean {}?", *nearest);
  } else if (const auto meant = likely_key(key.substr(key.rfind('.') + 1))) {
    const auto place = std::ranges::find_if(words, [&](const char* word) { return *option == word; });
    const bool has_next = place != words.end() && place + 1 != words.end() && **(place + 1) != '-';
    const std::string next = has_next ? *(place + 1) : "VALUE";
    hint = fmt::format("use --set {}={}", *meant, equals != std::string::npos ? option->substr(equals + 1) : next);
  } else {
    hint = "see dragonn-train --help";
  }
  throw ConfigError(fmt::format("unknown option {}; {}", name, hint));
}

}  // namespace

std::string CommandLine::named_run() const {
  const std::string named = named_folder();
  return named.empty() ? "" : run_of(named).string();
}

std::string CommandLine::config_file() const {
  if (!config.empty()) return config;
  const std::string named = named_folder();
  if (named.empty()) throw ConfigError("no config file given; usage: dragonn-train CONFIG.toml (see --help)");
  return config_of_run(named).string();
}

std::string CommandLine::named_folder() const {
  if (!evaluate.empty()) return evaluate;
  if (!from.empty()) return from;
  return resume == "auto" ? "" : resume;
}

std::optional<int> parse_command_line(int argc, const char* const* argv, CommandLine& line) {
  CLI::App app("Trains a neural network on workers that exchange dense or compressed gradients.", "dragonn-train");
  app.get_formatter()->column_width(kOptionColumns);
  std::vector<std::string> list;
  std::string print;
  declare_run(app, line);
  declare_inspect(app, line, list, print);
  app.footer(kFooter);
  app.allow_extras();
  const bool asks_for_keys =
      argc == 3 && std::string_view(argv[1]) == "--generate" && std::string_view(argv[2]) == "config";
  const auto page =
      asks_for_keys ? config_man_page()
                    : generated_page(app, argc, argv,
                                     {"dragonn-train.toml(5)", "dragonn(1)", "dragonn-bench(1)", "dragonn-compare(1)"},
                                     {{"--set", config_words()}, {"--list", component_kinds()}});
  if (page) {
    fmt::print("{}", *page);
    return 0;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const std::vector<std::string> rest = app.remaining(); !rest.empty()) {
    refuse(app, {argv, static_cast<std::size_t>(argc)}, rest, line);
  }
  if (!print.empty()) line.print_config = print == kAllSettings ? PrintConfig::kAll : PrintConfig::kYes;
  if (app.count("--list") > 0) {
    std::erase(list, "");  // CLI11 gives an option without values an empty one
    line.list = list;
  }
  return std::nullopt;
}

}  // namespace dragonn::trainer

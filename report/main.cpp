// SPDX-License-Identifier: MIT
/// `dragonn-compare`: reads the folders of runs and writes a page (and tables) that compare them.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "core/program.h"
#include "core/program_pages.h"
#include "report/compare.h"
#include "report/outputs.h"
#include "report/run.h"

namespace {

using namespace dragonn;

/// The name of the standard output where a file is expected.
constexpr const char* kStandardOutput = "-";

struct Options {
  std::vector<std::string> runs;
  std::string output = "report.html";
  std::string csv;
  std::string groups;
  std::string json;
  std::string curves;
  std::string svg;
  std::vector<std::string> fits;
  std::string title = "Comparison of training runs";
  report::CompareOptions comparison;
};

void declare(CLI::App& app, Options& options) {
  app.add_option("RUN_DIR", options.runs, "Run folders; runs that differ only in their seed are taken together")
      ->required();
  app.add_option("--output", options.output, "The HTML page to write")->type_name("FILE")->capture_default_str();
  app.add_option("--csv", options.csv, "Also write one row per run")->type_name("FILE");
  app.add_option("--groups", options.groups, "Also write one row per group of seeds: mean, lowest and highest")
      ->type_name("FILE");
  app.add_option("--json", options.json,
                 "Also write a JSON array with an object per group and per run to FILE (-: standard output)")
      ->type_name("FILE");
  app.add_option("--curves", options.curves, "Also write one row per step line and evaluation")->type_name("FILE");
  app.add_option("--svg", options.svg,
                 "Also write a figure: quality against time on the described and on an ideal network, or, where runs "
                 "do not tell the latter, quality and loss against epochs")
      ->type_name("FILE");
  app.add_option("--fit", options.fits, "Also show what `dragonn-bench fit --json FILE` wrote; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  auto* target = app.add_option("--target", options.comparison.target,
                                "Quality to reach, in its own unit (accuracy 0.65); default: a share of dense's")
                     ->type_name("VALUE");
  app.add_option("--target-share", options.comparison.target_share,
                 "Share of the dense run's final quality to reach (where lower is better: that quality over the share)")
      ->type_name("SHARE")
      ->capture_default_str()
      ->excludes(target);
  app.add_flag("--allow-different-tasks", options.comparison.allow_different_tasks,
               "Compare runs of several models or data sets, which are refused otherwise");
  app.add_option("--title", options.title, "Title of the page")->type_name("TEXT");
  app.set_version_flag("--version", version_line("dragonn-compare"));
}

/// @param stream where it says so.
void write(const std::string& path, const std::string& text, std::FILE* stream) {
  if (path.empty() || std::filesystem::is_directory(path)) {
    throw ConfigError(fmt::format("cannot write '{}': expected the name of a file", path));
  }
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw ConfigError(fmt::format("cannot write {}: there is no folder {}", path, folder.string()));
  }
  write_file_atomically(path, std::string_view(text));
  fmt::print(stream, "wrote {}\n", path);
}

void refuse_one_file_for_two(const Options& options) {
  std::set<std::string> targets;
  for (const std::string& path :
       {options.output, options.csv, options.groups, options.json, options.curves, options.svg}) {
    if (!path.empty() && path != kStandardOutput && !targets.insert(path).second)
      throw ConfigError(fmt::format("{} is to hold two outputs: give each a file of its own", path));
  }
}

void run(const Options& options) {
  refuse_one_file_for_two(options);
  std::vector<report::Run> runs;
  for (const std::string& folder : options.runs) runs.push_back(report::load_run(folder));
  std::vector<report::Fit> fits;
  for (const std::string& file : options.fits) std::ranges::move(report::load_fits(file), std::back_inserter(fits));
  const report::Comparison comparison = report::compare(std::move(runs), options.comparison);
  for (const std::string& warning : comparison.warnings) fmt::print(stderr, "warning: {}\n", printable(warning));
  // Words must not mix with JSON on the standard output.
  const bool prints_json = options.json == kStandardOutput;
  std::FILE* const stream = prints_json ? stderr : stdout;
  const auto write_if_wanted = [&](const std::string& path, auto make) {
    if (!path.empty()) write(path, make(comparison), stream);
  };
  write(options.output, report::html_page(comparison, fits, options.title), stream);
  write_if_wanted(options.csv, report::runs_csv);
  write_if_wanted(options.groups, report::groups_csv);
  if (!prints_json) write_if_wanted(options.json, report::comparison_json);
  write_if_wanted(options.curves, report::curves_csv);
  write_if_wanted(options.svg, [&](const auto& of) { return report::svg_figure(of, options.title); });
  fmt::print(stream, "\n{}", report::terminal_summary(comparison));
  if (prints_json) fmt::print("{}", report::comparison_json(comparison));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Compares training runs of dragonn-train.", "dragonn-compare");
  declare(app, options);
  if (const auto page = generated_page(app, argc, argv, {"dragonn-train(1)"})) {
    fmt::print("{}", *page);
    return 0;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    run(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "dragonn-compare: {}\n", printable(error.what()));
    return exit_code(error);
  }
}

// SPDX-License-Identifier: MIT
/// Benchmark: a subcommand of dragonn-bench. Each registers itself from its own file.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/progress.h"
#include "core/registry.h"

namespace CLI {
class App;
}

namespace dragonn::bench {

/// One object per row, with keys in the order in which they were set. All rows of a benchmark have the same keys.
using Rows = std::vector<nlohmann::ordered_json>;

/// Writes a text. `target` is a file's path, or "-" for the standard output. @throws SystemError if it cannot be
/// written.
void write_text(const std::string& text, const std::string& target);
/// Writes one JSON array. @throws as write_text.
void write_json(const Rows& rows, const std::string& target);

/// Null where a number is not known.
nlohmann::ordered_json or_null(double value);

/// Returns the value at `share` in [0, 1] of the sorted values (0.5: the median); between two of them, the nearest.
double percentile(std::vector<double> values, double share);

/// The keys that a narrow table shows.
struct TableColumns {
  /// The conditions of the measurement. A key is a column if its values differ; otherwise it stands once in the lines
  /// above the table.
  std::vector<std::string> conditions;
  /// The columns of results, the most important first.
  std::vector<std::string> results;
};

/// The longest line of a narrow table, in characters.
inline constexpr std::size_t kTableWidth = 100;

/// Prints the columns that answer the benchmark's question, in lines of at most kTableWidth characters. Columns that do
/// not fit are left out from the right; columns without any value are left out, too.
void print_table(const Rows& rows, const TableColumns& columns, std::FILE* stream);
/// Prints all columns, whatever their width.
void print_wide_table(const Rows& rows, std::FILE* stream);

class Benchmark {
 public:
  virtual ~Benchmark() = default;
  /// Adds the benchmark's own options. Those of all subcommands (`--json`, `--wide`) exist already.
  virtual void declare_options(CLI::App& command) = 0;
  /// Measures. Tells `progress` how much work there is and how much is done.
  virtual Rows run(Progress& progress) = 0;
  /// Returns lines on the meaning of the rows, which are printed below the table. Called after run().
  virtual std::vector<std::string> remarks() const { return {}; }
  /// Returns the text that `--json` writes in place of the rows; "": the rows. Called after run().
  virtual std::string document() const { return ""; }
};

struct BenchmarkEntry : RegistryEntry {
  static constexpr const char* kKind = "benchmark";
  std::function<std::unique_ptr<Benchmark>()> make;
  TableColumns table = {};                 ///< without `--wide`
  std::vector<std::string> examples = {};  ///< command lines for the help, without the program's name
};

}  // namespace dragonn::bench

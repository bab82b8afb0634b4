// SPDX-License-Identifier: MIT
/// Benchmark: a subcommand of dragonn-bench. Each registers itself from its own file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/progress.h"
#include "bench/rows.h"
#include "core/registry.h"

namespace CLI {
class App;
}

namespace dragonn::bench {

class Benchmark {
 public:
  virtual ~Benchmark() = default;
  /// Adds the benchmark's own options. Those of all subcommands (`--json`, `--wide`) exist already.
  virtual void declare_options(CLI::App& command) = 0;
  /// Measures. Tells `progress` how much work there is and how much is done.
  virtual Rows run(Progress& progress) = 0;
  /// Returns lines on the meaning of the rows, which are printed below the table. Called after run().
  virtual std::vector<std::string> remarks() const { return {}; }
};

struct BenchmarkEntry : RegistryEntry {
  static constexpr const char* kKind = "benchmark";
  std::function<std::unique_ptr<Benchmark>()> make;
  TableColumns table = {};                 ///< without `--wide`
  std::vector<std::string> examples = {};  ///< command lines for the help, without the program's name
};

}  // namespace dragonn::bench

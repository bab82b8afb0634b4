// SPDX-License-Identifier: MIT
/// Benchmark: a subcommand of dragonn-bench. Each registers itself from its own file.
#pragma once

#include <functional>
#include <memory>

#include "bench/rows.h"
#include "core/registry.h"

namespace CLI {
class App;
}

namespace dragonn::bench {

class Benchmark {
 public:
  virtual ~Benchmark() = default;
  /// Adds the benchmark's own options; `--json` exists already.
  virtual void declare_options(CLI::App& command) = 0;
  virtual Rows run() = 0;
};

struct BenchmarkEntry : RegistryEntry {
  static constexpr const char* kKind = "benchmark";
  std::function<std::unique_ptr<Benchmark>()> make;
};

}  // namespace dragonn::bench

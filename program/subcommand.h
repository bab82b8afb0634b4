// SPDX-License-Identifier: MIT
/// Subcommand: what `dragonn NAME ...` does. Each registers itself from its own file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/registry.h"

namespace CLI {
class App;
}

namespace dragonn::program {

class Subcommand {
 public:
  virtual ~Subcommand() = default;
  virtual void declare_options(CLI::App& command) = 0;
  /// Runs with the options that were parsed, and returns the exit code.
  virtual int run() = 0;
};

struct SubcommandEntry : RegistryEntry {
  static constexpr const char* kKind = "subcommand";
  /// Empty: the subcommand is a program of its own, `dragonn-NAME`, which gets all further arguments.
  std::function<std::unique_ptr<Subcommand>()> make = {};
  std::vector<std::string> examples = {};  ///< command lines for the help, without the program's name
};

}  // namespace dragonn::program

// SPDX-License-Identifier: MIT
/// Calls of the programs that lie beside this one.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace dragonn::program {

/// Replaces this process by a program of the same folder. @throws ConfigError if it cannot be started.
[[noreturn]] void call_program(const std::string& name, const std::vector<std::string>& arguments);

/// The options that a subcommand shares with dragonn-train: which config, keys and plug-ins are read.
class TrainOptions {
 public:
  void declare(CLI::App& command);
  /// Calls dragonn-train with these options and more arguments.
  [[noreturn]] void call(std::vector<std::string> arguments) const;

  std::string config;  ///< empty if none is given; how it is given is the subcommand's choice

 private:
  std::vector<std::string> overrides_, plugins_;
};

/// Declares what a subcommand that works on a run takes: RUN_DIR, and --config beside the options of dragonn-train.
/// @param run receives RUN_DIR; it outlives the command.
void declare_run(CLI::App& command, std::string& run, TrainOptions& options);

}  // namespace dragonn::program

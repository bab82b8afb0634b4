// SPDX-License-Identifier: MIT
/// The command line of dragonn-train.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dragonn::trainer {

/// What a user asks for.
struct CommandLine {
  std::string config;  ///< file; empty: none given
  std::vector<std::string> overrides;
  int workers = 0;  ///< 0: comm.workers
  std::string output;
  std::string resume;
  std::string evaluate;
  std::string print_config;  ///< "", "true" or "all"
  bool dry_run = false;
  std::optional<std::vector<std::string>> list;  ///< --list with none, one or two words: KIND, NAME

  /// The run folder that `resume` or `evaluate` names by itself or by a checkpoint in it; empty: none.
  std::string named_run() const;
  /// The config file to read: `config`, or else that of the named run. @throws ConfigError if there is none.
  std::string config_file() const;
};

/// @returns the exit code instead if the command line asked for help or the version, or CLI11 refused it and said so.
/// @throws ConfigError for an unknown option, with what was likely meant.
std::optional<int> parse_command_line(int argc, const char* const* argv, CommandLine& line);

}  // namespace dragonn::trainer

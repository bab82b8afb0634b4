// SPDX-License-Identifier: MIT
/// The command line of dragonn-train, and what `--list [KIND] [NAME]` prints: the registered components.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dragonn::trainer {

/// Says what --print-config prints; kAll: also the settings of components that the config does not name.
enum class PrintConfig { kNo, kYes, kAll };

/// The request of a user.
struct CommandLine {
  std::string config;  ///< path of the file; empty if none is given
  std::vector<std::string> overrides;
  std::vector<std::string> plugins;  ///< files to load before the config
  int workers = 0;                   ///< 0 takes comm.workers
  std::string output;
  std::string resume;
  std::string evaluate;
  std::string export_file;  ///< file of weights to write; empty: none
  std::string from;         ///< checkpoint or run folder whose weights are written
  PrintConfig print_config = PrintConfig::kNo;
  bool dry_run = false;
  std::optional<std::vector<std::string>> list;  ///< --list with none, one or two words: KIND, NAME

  /// Returns the run folder that `resume`, `evaluate` or `from` names, directly or by a checkpoint in it; empty if
  /// none.
  std::string named_run() const;
  /// Returns the config file to read: `config`, or else that of the named run. @throws ConfigError if there is none.
  std::string config_file() const;

 private:
  /// Returns the folder of an earlier run, or of a checkpoint, that an option names; empty if none does.
  std::string named_folder() const;
};

/// Parses the command line. Returns the exit code if it asked for help or the version, or if CLI11 refused it and
/// printed why; otherwise nothing. @throws ConfigError for an unknown option, with the one that was likely meant.
std::optional<int> parse_command_line(int argc, const char* const* argv, CommandLine& line);

/// Returns the words by which `--list` knows kinds of components: "models", "methods", ... Their singulars are known,
/// too.
std::vector<std::string> component_kinds();

/// Returns one line for each component, "kind name: summary", by kind, names ascending. With a kind, only its
/// components; with a name, too, or alone, that component's settings, source and traffic. A config's table stands for
/// the kinds that it chooses; one that chooses none has its keys listed.
/// @throws ConfigError for an unknown kind or name, with the nearest one.
std::string list_components(const std::vector<std::string>& words = {});

}  // namespace dragonn::trainer

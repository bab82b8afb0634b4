// SPDX-License-Identifier: MIT
#include "program/call.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/error.h"

namespace dragonn::program {

void call_program(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string path = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
  std::vector<char*> words{const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execv(path.c_str(), words.data());
  throw ConfigError(fmt::format("cannot start {}: {}", path, std::strerror(errno)));
}

void TrainOptions::declare(CLI::App& command) {
  command.add_option("--set", overrides_, "Set a key, as train.batch_size=8 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.add_option("--plugin", plugins_, "Load a shared object with components of your own (repeatable)")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void TrainOptions::call(std::vector<std::string> arguments) const {
  if (!config.empty()) arguments.insert(arguments.begin(), config);
  for (const std::string& text : overrides_) arguments.insert(arguments.end(), {"--set", text});
  for (const std::string& file : plugins_) arguments.insert(arguments.end(), {"--plugin", file});
  call_program("dragonn-train", arguments);
}

void declare_run(CLI::App& command, std::string& run, TrainOptions& options) {
  command.add_option("RUN_DIR", run, "Run folder, of which the newest checkpoint counts, or a checkpoint")->required();
  command.add_option("--config", options.config, "Read this config instead of the run's config.toml")
      ->type_name("CONFIG");
  options.declare(command);
}

}  // namespace dragonn::program

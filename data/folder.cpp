// SPDX-License-Identifier: MIT
#include "data/folder.h"

#include <system_error>

#include <fmt/format.h>

namespace dragonn::data {
namespace {

/// Describes what is wrong with the folder; empty if nothing is.
std::string fault_of(const std::string& folder) {
  if (folder.empty()) return "data.path is not set";
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return {};
  return folder + (std::filesystem::exists(folder, error) ? " is not a folder" : ": no such folder");
}

}  // namespace

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

ConfigError missing_data(const std::string& missing, const std::string& name, const std::string& folder) {
  const std::string target = folder.empty() ? "data/" + name : folder;
  return ConfigError(fmt::format("{}: data.path must name the folder of {}; to get it: scripts/get_data.sh {} {}",
                                 missing, name, name, target));
}

void require_folder(const std::string& folder, const std::string& name) {
  const std::string fault = fault_of(folder);
  if (!fault.empty()) throw missing_data(fault, name, is_there(folder) ? "" : folder);
}

void require_own_folder(const std::string& folder, const std::string& name) {
  const std::string fault = fault_of(folder);
  if (!fault.empty()) throw ConfigError(fmt::format("{}: data.path must name the folder of {}", fault, name));
}

}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
/// Plugins: loads shared objects whose components register themselves (core/plugin.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dragonn {

/// A plug-in of this process.
struct LoadedPlugin {
  std::filesystem::path file;           ///< absolute
  std::vector<std::string> components;  ///< what it registered: "sparsifier every_nth"
};

/// Loads a plug-in, unless this process has it already. Nothing of it runs before it is known to fit this program. It
/// stays loaded until the process ends.
/// @param file relative to the working directory, or absolute.  @param named_by begins the errors: "--plugin FILE".
/// @throws ConfigError if the file is missing, no shared object or no plug-in, was built for another dragonn, contains
/// dragonn's libraries, registers nothing, or registers a name that is taken. The program should then end: what the
/// plug-in registered before stays.
void load_plugin(const std::filesystem::path& file, const std::string& named_by);

/// Returns the plug-ins of this process, in the order of loading.
const std::vector<LoadedPlugin>& loaded_plugins();

}  // namespace dragonn

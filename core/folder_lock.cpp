// SPDX-License-Identifier: MIT
#include "core/folder_lock.h"

#include <cerrno>
#include <cstring>
#include <sys/file.h>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn {

FolderLock::FolderLock(const std::filesystem::path& folder) : folder_(folder, O_RDONLY | O_DIRECTORY) {
  if (!folder_.valid()) throw SystemError(fmt::format("cannot open {}: {}", folder.string(), std::strerror(errno)));
  if (::flock(folder_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  throw ConfigError(
      fmt::format("{}: another process writes there; wait for its end, or choose another folder", folder.string()));
}

}  // namespace dragonn

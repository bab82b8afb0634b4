// SPDX-License-Identifier: MIT
/// FolderLock: ensures that only one process at a time writes in a folder.
#pragma once

#include <filesystem>

#include "core/descriptor.h"

namespace dragonn {

/// Locks a folder while this object lives, against other processes and, where the file system shares locks, other
/// machines. Leaves no file, and ends with the process however that ends. Has no effect on file systems without locks
/// on folders (NFS).
class FolderLock {
 public:
  /// Locks nothing.
  FolderLock() = default;
  /// @throws ConfigError if another holds the folder, SystemError if it cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  Descriptor folder_;
};

}  // namespace dragonn

// SPDX-License-Identifier: MIT
/// A folder that one process at a time writes in.
#pragma once

#include <filesystem>

#include "core/descriptor.h"

namespace dragonn {

/// Keeps other FolderLocks off the folder for as long as it lives, also those of other processes and, where their file
/// system shares locks, other machines. Leaves no file, and ends with the process however that ends. A file system
/// without locks on folders (NFS) has none: there it does nothing.
class FolderLock {
 public:
  /// Holds nothing.
  FolderLock() = default;
  /// @throws ConfigError if another holds the folder, SystemError if it cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  Descriptor folder_;
};

}  // namespace dragonn

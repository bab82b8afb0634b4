// SPDX-License-Identifier: MIT
/// Files: descriptors, whole-file reads and durable writes, with errors that name the file and the reason; and locks
/// of folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dragonn {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  /// Takes over an open descriptor; -1 stands for none.
  explicit Descriptor(int fd) : fd_(fd) {}
  /// Opens a file. errno gives the reason if the descriptor is not valid(). A file that `flags` creates is rw-r--r--.
  Descriptor(const std::filesystem::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A regular file that is open.
struct RegularFile {
  Descriptor descriptor;
  std::size_t bytes = 0;  ///< its size when it was opened
};

/// Opens a regular file at once, whatever is at `path`: a pipe could block for ever, a device has no end.
/// @param flags as of open(2).  @throws MissingFileError; ConfigError that names the kind of what is there instead: a
/// folder, a FIFO, a device, a socket; SystemError if it cannot be opened.
RegularFile open_regular_file(const std::filesystem::path& path, int flags = O_RDONLY);

/// Checks that a path may be written: nothing is there, or a regular file. @throws ConfigError naming what is there.
void require_regular_or_missing(const std::filesystem::path& path);

/// Reads a whole file. @throws as open_regular_file, DataError if it has more than `max_bytes`, SystemError if it
/// cannot be read, or has more bytes than the machine's memory.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t max_bytes = SIZE_MAX);
std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes = SIZE_MAX);

/// Writes a file atomically: writes `bytes` to a temporary file beside it, fsyncs, renames, and fsyncs the folder.
/// After a crash `path` is the old file or the new one. @throws SystemError (full disk, permission), and the temporary
/// file is removed; ConfigError if something else than a file is there, which stays.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Fsyncs a folder, which makes renames in it durable.
void sync_directory(const std::filesystem::path& path);

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

// SPDX-License-Identifier: MIT
#include "core/file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/error.h"

namespace dragonn {
namespace {

SystemError system_error(const char* action, const std::filesystem::path& path, int code) {
  return SystemError(fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(code)));
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "folder";
  if (S_ISFIFO(mode)) return "FIFO";
  if (S_ISSOCK(mode)) return "socket";
  return "device";
}

void require_regular(const std::filesystem::path& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  throw ConfigError(fmt::format("{} is no regular file, but a {}", path.string(), kind_of(status.st_mode)));
}

}  // namespace

RegularFile open_regular_file(const std::filesystem::path& path, int flags) {
  RegularFile file{.descriptor = Descriptor(path, flags | O_NONBLOCK | O_NOCTTY)};
  const int code = errno;
  struct stat status {};
  const bool known = file.descriptor.valid() ? ::fstat(file.descriptor.get(), &status) == 0
                                             : ::stat(path.c_str(), &status) == 0;  // a socket cannot be opened
  if (known) require_regular(path, status);
  if (!file.descriptor.valid()) {
    if ((flags & O_CREAT) != 0) throw system_error("create", path, code);
    if (code == ENOENT || code == ENOTDIR) throw MissingFileError(fmt::format("no such file: {}", path.string()));
    throw system_error("open", path, code);
  }
  if (!known) throw system_error("read", path, errno);
  file.bytes = static_cast<std::size_t>(status.st_size);
  return file;
}

void require_regular_or_missing(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) require_regular(path, status);
}

std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const RegularFile file = open_regular_file(path);
  if (file.bytes > max_bytes)
    throw DataError(fmt::format("{}: {} bytes: should be at most {}", path.string(), file.bytes, max_bytes));
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  const std::size_t memory =
      pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : SIZE_MAX;
  if (file.bytes > memory)
    throw SystemError(
        fmt::format("cannot read {}: {} bytes, and this machine has {} of memory", path.string(), file.bytes, memory));
  std::vector<std::byte> bytes(file.bytes);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.descriptor.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw system_error("read", path, errno);
    if (count == 0) break;  // the file shrank while it was read
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const std::vector<std::byte> bytes = read_file(path, max_bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  require_regular_or_missing(path);
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  const auto fail = [&](const char* action) {
    const int code = errno;
    ::unlink(temporary.c_str());
    return system_error(action, path, code);
  };
  {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK);
    if (!file.valid()) throw system_error("create", temporary, errno);
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = ::write(file.get(), bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw fail("write");
      done += static_cast<std::size_t>(count);
    }
    if (::fsync(file.get()) != 0) throw fail("write");
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) throw fail("rename into place");
  sync_directory(path.parent_path().empty() ? "." : path.parent_path());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

void sync_directory(const std::filesystem::path& path) {
  Descriptor folder(path, O_RDONLY | O_DIRECTORY);
  if (!folder.valid()) throw system_error("open", path, errno);
  if (::fsync(folder.get()) != 0 && errno != EINVAL) throw system_error("sync", path, errno);
}

FolderLock::FolderLock(const std::filesystem::path& folder) : folder_(folder, O_RDONLY | O_DIRECTORY) {
  if (!folder_.valid()) throw system_error("open", folder, errno);
  if (::flock(folder_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  throw ConfigError(
      fmt::format("{}: another process writes there; wait for its end, or choose another folder", folder.string()));
}

}  // namespace dragonn

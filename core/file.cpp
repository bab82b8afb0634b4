// SPDX-License-Identifier: MIT
#include "core/file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/descriptor.h"
#include "core/error.h"

namespace dragonn {
namespace {

SystemError system_error(const char* action, const std::filesystem::path& path, int code) {
  return SystemError(fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(code)));
}

}  // namespace

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  Descriptor file(path, O_RDONLY | O_NONBLOCK);  // to open a pipe without a writer would block
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) throw ConfigError(fmt::format("no such file: {}", path.string()));
    throw system_error("open", path, errno);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw system_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw ConfigError(fmt::format("{} is a folder, not a file", path.string()));
  if (!S_ISREG(status.st_mode)) throw ConfigError(fmt::format("{} is no regular file", path.string()));
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw system_error("read", path, errno);
    if (count == 0) break;  // the file shrank while it was read
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

std::string read_text_file(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  const auto fail = [&](const char* action) {
    const int code = errno;
    ::unlink(temporary.c_str());
    return system_error(action, path, code);
  };
  {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
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

}  // namespace dragonn

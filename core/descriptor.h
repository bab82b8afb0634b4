// SPDX-License-Identifier: MIT
/// Descriptor: a file descriptor that closes itself.
#pragma once

#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace dragonn {

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

}  // namespace dragonn

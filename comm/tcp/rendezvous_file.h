// SPDX-License-Identifier: MIT
/// The rendezvous file, in which rank 0 says where it listens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "comm/tcp/address.h"

namespace dragonn::comm {

/// The content of a rendezvous file. docs/formats.md specifies the format.
struct RendezvousFile {
  std::uint64_t token = 0;  ///< drawn for this run: the coordinator recognizes ranks that read an older file
  std::vector<Address> addresses = {};

  /// Reads a file. Returns nothing if there is none, or an incomplete one. Never waits for what is there instead.
  /// @throws ConfigError if that is no regular file; SystemError if it cannot be read.
  static std::optional<RendezvousFile> read(const std::filesystem::path& path);
  bool operator==(const RendezvousFile&) const = default;
};

/// A rendezvous file on disk; the destructor removes it.
class PublishedFile {
 public:
  /// Writes the file, over any that an earlier run left. @throws SystemError if it cannot be written,
  /// ConfigError if something else than a file is there.
  PublishedFile(std::filesystem::path path, const RendezvousFile& file);
  /// Removes the file if it still is this one.
  ~PublishedFile();
  PublishedFile(const PublishedFile&) = delete;
  PublishedFile& operator=(const PublishedFile&) = delete;

  /// Returns whether the file is still this one: nobody replaced or removed it.
  bool still_there() const;

 private:
  std::filesystem::path path_;
  std::uint64_t token_;
};

}  // namespace dragonn::comm

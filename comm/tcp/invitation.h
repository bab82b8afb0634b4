// SPDX-License-Identifier: MIT
/// The file by which rank 0 says where it listens, where a run meets by a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "comm/tcp/address.h"

namespace dragonn::comm {

/// What such a file says. Its format is in docs/formats.md.
struct Invitation {
  std::uint64_t token = 0;  ///< drawn for this meeting: a listener knows by it who read an older file
  std::vector<Address> addresses = {};

  /// Empty if there is no such file, or none that is whole.
  static std::optional<Invitation> read(const std::filesystem::path& file);
  bool operator==(const Invitation&) const = default;
};

/// An invitation on disk, taken back at the end.
class PostedInvitation {
 public:
  /// In the place of any that an earlier run left. @throws SystemError if it cannot be written.
  PostedInvitation(std::filesystem::path file, const Invitation& invitation);
  /// Removes the file, if it still is this one.
  ~PostedInvitation();
  PostedInvitation(const PostedInvitation&) = delete;
  PostedInvitation& operator=(const PostedInvitation&) = delete;

  /// Whether nobody wrote another one over it, or removed it.
  bool still_there() const;

 private:
  std::filesystem::path file_;
  std::uint64_t token_;
};

}  // namespace dragonn::comm

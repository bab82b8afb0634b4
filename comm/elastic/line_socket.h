// SPDX-License-Identifier: MIT
/// LineSocket: a connection between a member and the coordinator of an elastic run, which carries lines of text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/tcp/socket.h"
#include "core/file.h"

namespace dragonn::comm {

class LineSocket {
 public:
  /// The longest line, in bytes; a longer one ends the connection. The members of a generation fit into one.
  static constexpr std::size_t kLongestLine = std::size_t{1} << 18;

  LineSocket() = default;
  explicit LineSocket(Descriptor socket) : socket_(std::move(socket)) {}

  /// Sends a line. Waits until the kernel has taken it, at most a second: lines are few and short. Returns whether it
  /// has.
  bool send(std::string_view line);
  /// Reads the lines that have come; never waits. Returns false once the connection has ended.
  bool read(std::vector<std::string>& lines);
  const Descriptor& descriptor() const { return socket_; }

 private:
  Descriptor socket_;
  std::string begun_;  // the line that has not come to its end
};

}  // namespace dragonn::comm

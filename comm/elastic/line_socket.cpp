// SPDX-License-Identifier: MIT
#include "comm/elastic/line_socket.h"

#include <array>
#include <cerrno>
#include <span>
#include <sys/socket.h>

namespace dragonn::comm {

bool LineSocket::send(std::string_view line) {
  std::string whole(line);
  whole += '\n';
  return write_all(socket_, std::as_bytes(std::span(whole)), deadline_after(1)).empty();
}

bool LineSocket::read(std::vector<std::string>& lines) {
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t count = ::recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (count <= 0) return false;
    for (const char letter : std::span(part).first(static_cast<std::size_t>(count))) {
      if (letter == '\n') {
        lines.push_back(std::exchange(begun_, {}));
      } else if (begun_.size() < kLongestLine) {
        begun_ += letter;
      } else {
        return false;
      }
    }
  }
}

}  // namespace dragonn::comm

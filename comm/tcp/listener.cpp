// SPDX-License-Identifier: MIT
#include "comm/tcp/listener.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <span>
#include <string_view>
#include <sys/socket.h>

#include "core/version.h"

namespace dragonn::comm {
namespace {

std::span<std::byte> bytes_of(Hello& hello) {
  return std::as_writable_bytes(std::span(&hello, 1));
}

bool is_whole(std::size_t received) {
  return received == sizeof(Hello);
}

}  // namespace

Hello hello_of(int rank, int size) {
  Hello hello{.rank = rank, .size = size};
  const std::string_view version = dragonn::version();
  std::copy_n(version.begin(), std::min(version.size(), hello.version.size()), hello.version.begin());
  return hello;
}

std::string version_of(const Hello& hello) {
  return std::string(hello.version.begin(), std::ranges::find(hello.version, '\0'));
}

std::uint16_t Listener::port() const {
  const auto address = local_address(listener_);
  return static_cast<std::uint16_t>(address ? address->port : 0);
}

void Listener::accept_all(std::string& problem) {
  for (;;) {
    SocketResult next = accept_from(listener_);
    if (!next.socket.valid()) {
      problem = next.problem;
      return;
    }
    pending_.push_back({{std::move(next.socket), {}}, 0});
  }
}

bool Listener::read_more(PendingConnection& pending) {
  const std::span<std::byte> all = bytes_of(pending.connection.hello);
  const std::span<std::byte> rest = all.subspan(pending.received);
  const ssize_t count = ::recv(pending.connection.socket.get(), rest.data(), rest.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  pending.received += static_cast<std::size_t>(count);
  const Hello expected;
  const std::size_t known = std::min(pending.received, expected.magic.size());
  return std::memcmp(all.data(), expected.magic.data(), known) == 0;
}

std::vector<AcceptedConnection> Listener::wait(Deadline deadline, std::string& problem) {
  std::vector<AcceptedConnection> accepted;
  problem.clear();
  while (accepted.empty() && problem.empty()) {
    std::vector<pollfd> sockets{{listener_.get(), POLLIN, 0}};
    for (const PendingConnection& pending : pending_) sockets.push_back({pending.connection.socket.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    constexpr std::chrono::milliseconds kLook{100};
    if (::poll(sockets.data(), sockets.size(), static_cast<int>(std::min(left, kLook).count())) <= 0) continue;
    std::vector<PendingConnection> still_there;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      PendingConnection& pending = pending_[i];
      if (sockets[i + 1].revents != 0 && !read_more(pending)) continue;
      if (is_whole(pending.received)) {
        accepted.push_back(std::move(pending.connection));
      } else {
        still_there.push_back(std::move(pending));
      }
    }
    pending_ = std::move(still_there);
    if (sockets.front().revents != 0) accept_all(problem);
  }
  return accepted;
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/tcp/reception.h"

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

std::uint16_t Reception::port() const {
  const auto address = local_address(listener_);
  return static_cast<std::uint16_t>(address ? address->port : 0);
}

void Reception::accept_all(std::string& problem) {
  for (;;) {
    SocketResult next = accept_from(listener_);
    if (!next.socket.valid()) {
      problem = next.problem;
      return;
    }
    arrivals_.push_back({{std::move(next.socket), {}}, 0});
  }
}

bool Reception::read_more(Arrival& arrival) {
  const std::span<std::byte> all = bytes_of(arrival.visitor.hello);
  const std::span<std::byte> rest = all.subspan(arrival.received);
  const ssize_t count = ::recv(arrival.visitor.socket.get(), rest.data(), rest.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  arrival.received += static_cast<std::size_t>(count);
  const Hello expected;
  const std::size_t known = std::min(arrival.received, expected.magic.size());
  return std::memcmp(all.data(), expected.magic.data(), known) == 0;
}

std::vector<Visitor> Reception::wait(Deadline deadline, std::string& problem) {
  std::vector<Visitor> visitors;
  problem.clear();
  while (visitors.empty() && problem.empty()) {
    std::vector<pollfd> sockets{{listener_.get(), POLLIN, 0}};
    for (const Arrival& arrival : arrivals_) sockets.push_back({arrival.visitor.socket.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    constexpr std::chrono::milliseconds kLook{100};
    if (::poll(sockets.data(), sockets.size(), static_cast<int>(std::min(left, kLook).count())) <= 0) continue;
    std::vector<Arrival> still_there;
    for (std::size_t i = 0; i < arrivals_.size(); ++i) {
      Arrival& arrival = arrivals_[i];
      if (sockets[i + 1].revents != 0 && !read_more(arrival)) continue;
      if (is_whole(arrival.received)) {
        visitors.push_back(std::move(arrival.visitor));
      } else {
        still_there.push_back(std::move(arrival));
      }
    }
    arrivals_ = std::move(still_there);
    if (sockets.front().revents != 0) accept_all(problem);
  }
  return visitors;
}

}  // namespace dragonn::comm

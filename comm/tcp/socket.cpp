// SPDX-License-Identifier: MIT
#include "comm/tcp/socket.h"

#include <cerrno>
#include <chrono>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>

namespace dragonn::comm {
namespace {

std::string text_of(int code) {
  return std::generic_category().message(code);
}

void set_option(const Descriptor& socket, int level, int option, int value) {
  ::setsockopt(socket.get(), level, option, &value, sizeof(value));
}

Descriptor new_socket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// Disables Nagle's algorithm: messages leave at once.
Descriptor connected(Descriptor socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

/// Returns the result of a connect that was pending: 0 or an error number.
int outcome_of(const Descriptor& socket) {
  int code = 0;
  socklen_t size = sizeof(code);
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
  return code;
}

/// @param ask getsockname or getpeername.
std::optional<Address> address_by(int (*ask)(int, sockaddr*, socklen_t*), const Descriptor& socket) {
  SocketAddress place;
  if (ask(socket.get(), place.pointer(), &place.size) != 0) return std::nullopt;
  return from_socket_address(*place.pointer());
}

/// Moves all of `bytes` by calls of `move`, which returns how many it moved, below 0 on an error. @param events that
/// poll waits for when nothing can be moved.
template <class Byte, class Move>
std::string transfer(const Descriptor& socket, std::span<Byte> bytes, short events, Deadline deadline,
                     const Move& move) {
  while (!bytes.empty()) {
    const ssize_t count = move(bytes);
    if (count == 0) return "the connection was closed";
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket, events, deadline)) return "timed out";
    } else if (errno != EINTR) {
      return text_of(errno);
    }
  }
  return "";
}

}  // namespace

SocketResult listen_on(const Address& address) {
  const bool ipv6 = address.family == Address::Family::kIpv6;
  Descriptor socket = new_socket(ipv6 ? AF_INET6 : AF_INET);
  if (!socket.valid()) return {{}, text_of(errno)};
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (ipv6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  const SocketAddress place = to_socket_address(address);
  if (::bind(socket.get(), place.pointer(), place.size) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    return {{}, text_of(errno)};
  }
  return {std::move(socket), ""};
}

SocketResult listen_everywhere(std::uint16_t port) {
  SocketResult both = listen_on({.family = Address::Family::kIpv6, .port = port});
  return both.problem.empty() ? std::move(both) : listen_on({.family = Address::Family::kIpv4, .port = port});
}

SocketResult connect_to(const Address& address, Deadline deadline) {
  Descriptor socket = new_socket(address.family == Address::Family::kIpv6 ? AF_INET6 : AF_INET);
  if (!socket.valid()) return {{}, text_of(errno)};
  const SocketAddress place = to_socket_address(address);
  if (::connect(socket.get(), place.pointer(), place.size) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return {{}, text_of(errno)};
    if (!wait_for(socket, POLLOUT, deadline)) return {{}, "no answer in time"};
    if (const int code = outcome_of(socket); code != 0) return {{}, text_of(code)};
  }
  // The system may assign a socket the very port that it connects to, if nobody listens there.
  if (local_address(socket) == remote_address(socket)) return {{}, text_of(ECONNREFUSED)};
  return {connected(std::move(socket)), ""};
}

SocketResult accept_from(const Descriptor& listener) {
  Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.valid()) return {connected(std::move(socket)), ""};
  const bool out_of_descriptors = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  return {{}, out_of_descriptors ? text_of(errno) : ""};
}

std::optional<Address> local_address(const Descriptor& socket) {
  return address_by(::getsockname, socket);
}

std::optional<Address> remote_address(const Descriptor& socket) {
  return address_by(::getpeername, socket);
}

bool wait_for(const Descriptor& socket, short events, Deadline deadline) {
  for (;;) {
    pollfd wanted{socket.get(), events, 0};
    if (::poll(&wanted, 1, milliseconds_until(deadline)) > 0) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

std::string read_all(const Descriptor& socket, std::span<std::byte> bytes, Deadline deadline) {
  return transfer(socket, bytes, POLLIN, deadline,
                  [&](auto left) { return ::recv(socket.get(), left.data(), left.size(), 0); });
}

std::string write_all(const Descriptor& socket, std::span<const std::byte> bytes, Deadline deadline) {
  return transfer(socket, bytes, POLLOUT, deadline,
                  [&](auto left) { return ::send(socket.get(), left.data(), left.size(), MSG_NOSIGNAL); });
}

}  // namespace dragonn::comm

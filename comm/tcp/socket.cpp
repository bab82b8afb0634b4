// SPDX-License-Identifier: MIT
#include "comm/tcp/socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>

#include <fmt/format.h>

#include "core/printable.h"

namespace dragonn::comm {
namespace {

/// An address as the system's calls take it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* pointer() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress to_socket_address(const Address& address) {
  SocketAddress result;
  const auto port = htons(static_cast<std::uint16_t>(address.port));
  if (address.family == Address::Family::kIpv6) {
    sockaddr_in6 ipv6{};
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = port;
    ipv6.sin6_scope_id = address.scope;
    std::memcpy(&ipv6.sin6_addr, address.bytes.data(), sizeof(ipv6.sin6_addr));
    std::memcpy(&result.storage, &ipv6, sizeof(ipv6));
    result.size = sizeof(ipv6);
  } else {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = port;
    std::memcpy(&ipv4.sin_addr, address.bytes.data(), sizeof(ipv4.sin_addr));
    std::memcpy(&result.storage, &ipv4, sizeof(ipv4));
    result.size = sizeof(ipv4);
  }
  return result;
}

/// Returns nothing if the family is neither IPv4 nor IPv6.
std::optional<Address> from_socket_address(const sockaddr& given) {
  Address address;
  if (given.sa_family == AF_INET6) {
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, &given, sizeof(ipv6));
    address = {.family = Address::Family::kIpv6, .scope = ipv6.sin6_scope_id, .port = ntohs(ipv6.sin6_port)};
    std::memcpy(address.bytes.data(), &ipv6.sin6_addr, sizeof(ipv6.sin6_addr));
    return address;
  }
  if (given.sa_family != AF_INET) return std::nullopt;
  sockaddr_in ipv4{};
  std::memcpy(&ipv4, &given, sizeof(ipv4));
  address = {.family = Address::Family::kIpv4, .port = ntohs(ipv4.sin_port)};
  std::memcpy(address.bytes.data(), &ipv4.sin_addr, sizeof(ipv4.sin_addr));
  return address;
}

bool is_link_local(const Address& address) {
  return address.family == Address::Family::kIpv6 && address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
}

std::string text_of(int code) {
  return std::generic_category().message(code);
}

void set_option(const Descriptor& socket, int level, int option, int value) {
  ::setsockopt(socket.get(), level, option, &value, sizeof(value));
}

Descriptor new_socket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// Disables Nagle's algorithm: messages leave at once. Of a message that cannot, the kernel takes 64 KiB and no more:
/// otherwise it would still send one message while the next to another host is on its way, and the host that others
/// wait for would get its own late. The window of what is on its way has no limit here.
Descriptor connected(Descriptor socket) {
  constexpr int kMostUnsent = 64 << 10;
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kMostUnsent);
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

std::vector<Address> resolve(const HostAndPort& place, std::string& problem, int flags) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &wanted, &found);
  if (code != 0) {
    problem = fmt::format("no address of host '{}' is known: {}", excerpt(place.host), ::gai_strerror(code));
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (const auto address = from_socket_address(*entry->ai_addr)) addresses.push_back(*address);
  }
  return addresses;
}

bool Address::is_loopback() const {
  if (family == Family::kIpv4) return bytes[0] == 127;
  constexpr std::array<std::uint8_t, 16> kIpv6Loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return family == Family::kIpv6 && bytes == kIpv6Loopback;
}

std::string Address::text() const {
  std::array<char, INET6_ADDRSTRLEN> host{};
  const bool ipv6 = family == Family::kIpv6;
  ::inet_ntop(ipv6 ? AF_INET6 : AF_INET, bytes.data(), host.data(), host.size());
  const std::string interface = ipv6 && scope != 0 ? fmt::format("%{}", scope) : "";
  return ipv6 ? fmt::format("[{}{}]:{}", host.data(), interface, port) : fmt::format("{}:{}", host.data(), port);
}

std::string HostAndPort::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::optional<HostAndPort> parse_host_and_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  HostAndPort place;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), place.port);
  if (status != std::errc() || end != digits.data() + digits.size() || place.port == 0) return std::nullopt;
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  if (host.empty() || (!in_brackets && host.find_first_of(":[]") != std::string_view::npos)) return std::nullopt;
  place.host = host;
  return place;
}

std::optional<Address> parse_address(std::string_view text) {
  const auto place = parse_host_and_port(text);
  if (!place) return std::nullopt;
  std::string problem;
  const std::vector<Address> addresses = resolve(*place, problem, AI_NUMERICHOST);
  if (addresses.empty()) return std::nullopt;
  return addresses.front();
}

std::vector<Address> addresses_of_this_machine(std::uint16_t port) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(found, &::freeifaddrs);
  std::vector<Address> addresses;
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    auto address = from_socket_address(*entry->ifa_addr);
    if (!address || is_link_local(*address)) continue;
    address->port = port;
    addresses.push_back(*address);
  }
  const auto others = std::ranges::partition(addresses, [](const Address& a) { return !a.is_loopback(); });
  if (others.begin() != addresses.begin()) addresses.erase(others.begin(), others.end());
  return addresses;
}

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

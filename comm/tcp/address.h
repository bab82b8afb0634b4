// SPDX-License-Identifier: MIT
/// Address: where a socket listens, in IPv4 or IPv6.
#pragma once

#include <array>
#include <cstdint>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <type_traits>
#include <vector>

namespace dragonn::comm {

/// The address and port of a socket. Ranks send it to each other byte by byte.
struct Address {
  enum class Family : std::uint32_t { kNone, kIpv4, kIpv6 };

  Family family = Family::kNone;
  std::uint32_t scope = 0;                  ///< the interface of a link-local IPv6 address
  std::array<std::uint8_t, 16> bytes = {};  ///< network byte order; IPv4 uses the first four
  std::uint64_t port = 0;

  /// Returns whether only processes of the same machine reach the address.
  bool is_loopback() const;
  /// Returns the address as text: "10.0.0.1:4000", "[fe80::1]:4000".
  std::string text() const;
  bool operator==(const Address&) const = default;
};
static_assert(std::has_unique_object_representations_v<Address>, "no padding that would be sent");

/// A host, by name or number, and a port: "HOST:PORT", "[IPV6]:PORT".
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;

  std::string text() const;
};
/// Returns nothing if `text` is of another form.
std::optional<HostAndPort> parse_host_and_port(std::string_view text);

/// Resolves a host, given by name or number. Returns no address, and sets `problem`, if there is none. May take
/// seconds. @param flags more ones of getaddrinfo(3).
std::vector<Address> resolve(const HostAndPort& place, std::string& problem, int flags = 0);
/// Parses what Address::text() returns. Looks up no names.
std::optional<Address> parse_address(std::string_view text);

/// Returns the addresses of this machine that other machines may reach, with `port`; if there is none, those of the
/// loopback interface.
std::vector<Address> addresses_of_this_machine(std::uint16_t port);

/// An address as the system's calls take it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* pointer() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
SocketAddress to_socket_address(const Address& address);
/// Returns nothing if the family is neither IPv4 nor IPv6.
std::optional<Address> from_socket_address(const sockaddr& given);

}  // namespace dragonn::comm

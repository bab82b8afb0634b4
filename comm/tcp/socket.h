// SPDX-License-Identifier: MIT
/// Sockets that never block, their addresses, and waits with a deadline. Problems are returned as text, since only the
/// caller knows the ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "comm/deadline.h"
#include "core/file.h"

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

/// A socket, or the reason why there is none.
struct [[nodiscard]] SocketResult {
  Descriptor socket;
  std::string problem;  ///< empty if there is a socket
};

/// Listens on an address of this machine; port 0 takes any free port.
SocketResult listen_on(const Address& address);
/// Listens on all addresses of this machine, in IPv4 and, where the machine has it, IPv6.
SocketResult listen_everywhere(std::uint16_t port);
/// Connects to an address. A connection of a socket to itself, which the system allows on one machine, counts as
/// refused.
SocketResult connect_to(const Address& address, Deadline deadline);
/// Accepts the next connection. Returns neither socket nor problem if none is pending.
SocketResult accept_from(const Descriptor& listener);

/// Returns the address of this end; nothing if the socket has none.
std::optional<Address> local_address(const Descriptor& socket);
/// Returns the address of the other end; nothing if the socket has none.
std::optional<Address> remote_address(const Descriptor& socket);

/// Returns whether one of the poll `events` happened before the deadline.
bool wait_for(const Descriptor& socket, short events, Deadline deadline);
/// Reads or writes all of `bytes`. Returns the problem; empty if there was none.
[[nodiscard]] std::string read_all(const Descriptor& socket, std::span<std::byte> bytes, Deadline deadline);
[[nodiscard]] std::string write_all(const Descriptor& socket, std::span<const std::byte> bytes, Deadline deadline);

/// Returns the bytes of a value that is sent as it lies in memory.
template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
/// Returns the bytes that a value is received into.
template <class T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace dragonn::comm

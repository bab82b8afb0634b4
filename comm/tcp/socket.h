// SPDX-License-Identifier: MIT
/// Sockets that never block, and waits with a deadline. Problems are returned as text, since only the caller knows the
/// ranks.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "comm/deadline.h"
#include "comm/tcp/address.h"
#include "core/file.h"

namespace dragonn::comm {

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

// SPDX-License-Identifier: MIT
/// Sockets that never block, and what may be waited for until a deadline. Problems are told as text: who calls knows
/// the ranks.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "comm/deadline.h"
#include "comm/tcp/address.h"
#include "core/descriptor.h"

namespace dragonn::comm {

/// A connection, or something to be connected to; or why there is none.
struct [[nodiscard]] SocketResult {
  Descriptor socket;
  std::string problem;  ///< empty if there is one
};

/// A listener on an address of this machine; port 0 is any that is free.
SocketResult listen_on(const Address& address);
/// A listener on all addresses of this machine, of both families where it has IPv6.
SocketResult listen_everywhere(std::uint16_t port);
/// Connects; of one address that is this machine's own, never to itself.
SocketResult connect_to(const Address& address, Deadline deadline);
/// The next one that asks for a connection; neither socket nor problem if nobody does now.
SocketResult accept_from(const Descriptor& listener);

/// Of this end. Empty if the socket has none.
std::optional<Address> local_address(const Descriptor& socket);
/// Of the other end.
std::optional<Address> remote_address(const Descriptor& socket);

/// Whether one of `events` (of poll) happened by the deadline.
bool wait_for(const Descriptor& socket, short events, Deadline deadline);
/// All of `bytes`, or the problem.
[[nodiscard]] std::string read_all(const Descriptor& socket, std::span<std::byte> bytes, Deadline deadline);
[[nodiscard]] std::string write_all(const Descriptor& socket, std::span<const std::byte> bytes, Deadline deadline);

}  // namespace dragonn::comm

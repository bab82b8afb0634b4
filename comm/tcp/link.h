// SPDX-License-Identifier: MIT
/// Link: the connection to one other rank.
#pragma once

#include <poll.h>
#include <utility>

#include "comm/tcp/incoming.h"
#include "comm/tcp/outgoing.h"
#include "core/descriptor.h"

namespace dragonn::comm {

/// Both directions of a connection.
struct Link {
  explicit Link(Descriptor connection) : socket(std::move(connection)), out(socket.get()), in(socket.get()) {}

  /// Writes and reads what goes without waiting.
  void move() {
    out.write();
    in.read();
    // Whoever takes nothing more, and has said nothing that is still to be read, is gone.
    if (out.is_broken() && !in.can_read() && !in.is_closed()) in.lose("its connection was closed");
  }
  /// What poll is to wait for; 0: nothing.
  short events() const { return static_cast<short>((in.can_read() ? POLLIN : 0) | (out.is_pending() ? POLLOUT : 0)); }

  Descriptor socket;
  Outgoing out;
  Incoming in;
};

}  // namespace dragonn::comm

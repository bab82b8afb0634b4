// SPDX-License-Identifier: MIT
/// Link: the connection to one other rank.
#pragma once

#include <poll.h>
#include <utility>

#include "comm/tcp/incoming.h"
#include "comm/tcp/outgoing.h"
#include "core/descriptor.h"

namespace dragonn::comm {

/// Both directions of a connection to another rank.
struct Link {
  explicit Link(Descriptor connection) : socket(std::move(connection)), out(socket.get()), in(socket.get()) {}

  /// Writes and reads as much as is possible without waiting.
  void move() {
    out.write();
    in.read();
    // A rank that takes nothing more, and has sent nothing that is still unread, is gone.
    if (out.is_broken() && !in.can_read() && !in.is_closed()) in.lose("its connection was closed");
  }
  /// Returns the events that poll should wait for; 0 if there are none.
  short events() const { return static_cast<short>((in.can_read() ? POLLIN : 0) | (out.is_pending() ? POLLOUT : 0)); }

  Descriptor socket;
  Outgoing out;
  Incoming in;
};

}  // namespace dragonn::comm

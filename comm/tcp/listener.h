// SPDX-License-Identifier: MIT
/// Listener: accepts connections and reads the hello that each begins with.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/deadline.h"
#include "comm/tcp/address.h"
#include "comm/tcp/socket.h"

namespace dragonn::comm {

/// The first bytes on every connection, in the machine's byte order: all machines of a run have the same.
struct Hello {
  std::array<char, 8> magic = {'d', 'r', 'a', 'g', 'o', 'n', 'n', '1'};
  std::int32_t rank = 0;
  std::int32_t size = 0;              ///< world size that this rank was started with
  std::uint64_t run = 0;              ///< Rendezvous::run
  std::uint64_t token = 0;            ///< of the coordinator; 0 where the rank does not know it yet
  Address listener = {};              ///< where this rank accepts the higher ranks
  std::array<char, 48> version = {};  ///< of the program, truncated
};
static_assert(std::has_unique_object_representations_v<Hello>, "no padding that would be sent");

/// Returns the hello of this build.
Hello hello_of(int rank, int size);
std::string version_of(const Hello& hello);

/// A connection whose hello has come.
struct AcceptedConnection {
  Descriptor socket;
  Hello hello;
};

/// Accepts connections. A connection that sends something else than a hello (a port scan) is dropped.
class Listener {
 public:
  explicit Listener(Descriptor listener) : listener_(std::move(listener)) {}

  /// Waits until some connection has sent its hello, or until the deadline. Returns those that have, in no order.
  /// @param problem set if the system accepts no more connections; otherwise cleared.
  std::vector<AcceptedConnection> wait(Deadline deadline, std::string& problem);
  std::uint16_t port() const;

 private:
  /// A connection of whose hello only the first bytes have come.
  struct PendingConnection {
    AcceptedConnection connection;
    std::size_t received = 0;
  };

  void accept_all(std::string& problem);
  /// Reads the bytes that are there. Returns false if they are not those of a hello.
  static bool read_more(PendingConnection& pending);

  Descriptor listener_;
  std::vector<PendingConnection> pending_;
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// Reception: who asks for a connection, and what each says of itself first.
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

/// The first bytes on every connection, in the byte order of the machine: all of a run have the same.
struct Hello {
  std::array<char, 8> magic = {'d', 'r', 'a', 'g', 'o', 'n', 'n', '1'};
  std::int32_t rank = 0;
  std::int32_t size = 0;              ///< of the world, as this rank was told
  std::uint64_t run = 0;              ///< Rendezvous::run
  std::uint64_t token = 0;            ///< of the meeting, 0 where the rank does not know it yet
  Address listener = {};              ///< where this rank waits for those above it
  std::array<char, 48> version = {};  ///< of the program, cut
};
static_assert(std::has_unique_object_representations_v<Hello>, "no padding that would be sent");

/// The hello of this build.
Hello hello_of(int rank, int size);
std::string version_of(const Hello& hello);

/// A rank at the door.
struct Visitor {
  Descriptor socket;
  Hello hello;
};

/// Takes connections on a listener. What does not say hello is dropped: scanners of ports, strangers.
class Reception {
 public:
  explicit Reception(Descriptor listener) : listener_(std::move(listener)) {}

  /// Waits until somebody has said hello or the deadline has passed. Returns those who have, in no order.
  /// @param problem why the system gives no more connections; else empty.
  std::vector<Visitor> wait(Deadline deadline, std::string& problem);
  std::uint16_t port() const;

 private:
  /// A connection of which part of the hello has come.
  struct Arrival {
    Visitor visitor;
    std::size_t received = 0;
  };

  void accept_all(std::string& problem);
  /// Reads what there is; false if it is no hello that comes.
  static bool read_more(Arrival& arrival);

  Descriptor listener_;
  std::vector<Arrival> arrivals_;
};

}  // namespace dragonn::comm

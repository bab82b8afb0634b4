// SPDX-License-Identifier: MIT
/// Ports: the queues of messages at the exit and the entrance of a virtual worker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dragonn::comm {

/// The exit: messages leave one at a time, in the order in which they are started.
class OutPort {
 public:
  /// Reserves `seconds` for a message that is started at `now`. Returns when it is out.
  double reserve(double now, double seconds) {
    free_from_ = std::max(now, free_from_) + seconds;
    return free_from_;
  }

 private:
  double free_from_ = 0;
};

/// The entrance: serves messages in the order of its owner's program, so that thread scheduling changes no time. A
/// message uses all the time after its first byte's arrival that earlier messages left over, in several pieces if need
/// be. A port never idles while a message waits for it. So the last of several awaited messages arrives when it would
/// in any other order, too; the order only decides which of them are early.
class InPort {
 public:
  InPort() { busy_.reserve(kPieces); }

  /// Reserves `seconds` for a message whose first byte arrives at `ready`. Returns when its last byte is in.
  double reserve(double ready, double seconds);

 private:
  struct Piece {
    double begin;
    double end;
  };
  /// Only the last so many pieces are kept; all time before them counts as taken.
  static constexpr std::size_t kPieces = 64;
  void insert(std::size_t first, std::size_t last, Piece piece);

  std::vector<Piece> busy_;  // ascending, disjoint
  double forgotten_ = 0;     // nothing is served before
};

}  // namespace dragonn::comm

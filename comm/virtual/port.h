// SPDX-License-Identifier: MIT
/// Ports: how messages of a virtual cluster queue where they leave a worker and where they enter it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dragonn::comm {

/// Messages leave in the order in which they are started, one at a time.
class OutPort {
 public:
  /// A message that is started at `now` and takes `seconds`. Returns when it is out.
  double reserve(double now, double seconds) {
    free_from_ = std::max(now, free_from_) + seconds;
    return free_from_;
  }

 private:
  double free_from_ = 0;
};

/// The port serves messages in the order in which its owner takes them, which is that of the owner's program: no
/// accident of threads changes a time. A message gets all the time from its coming on that those before it left over,
/// in several pieces if need be. A port never idles while something waits for it, so the last of several messages that
/// are all waited for arrives when it would in any other order, too; only which of them is early depends on the order.
class InPort {
 public:
  InPort() { busy_.reserve(kPieces); }

  /// A message whose first byte is there at `ready` and that takes `seconds`. Returns when its last byte is in.
  double reserve(double ready, double seconds);

 private:
  struct Piece {
    double begin;
    double end;
  };
  /// Times before the last so many pieces are forgotten, and count as taken.
  static constexpr std::size_t kPieces = 64;
  void insert(std::size_t first, std::size_t last, Piece piece);

  std::vector<Piece> busy_;  // ascending, disjoint
  double forgotten_ = 0;     // nothing is served before
};

}  // namespace dragonn::comm

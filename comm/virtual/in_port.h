// SPDX-License-Identifier: MIT
/// InPort: the entrance of a worker or a node of a virtual cluster, where messages queue.
#pragma once

#include <cstddef>
#include <vector>

namespace dragonn::comm {

/// Serves messages in the order of the calls. A message uses all the time after its first byte's arrival that earlier
/// messages left over, in several pieces if need be. A port never idles while a message waits for it. So the last of
/// several awaited messages arrives when it would in any other order, too; the order only decides which of them are
/// early.
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

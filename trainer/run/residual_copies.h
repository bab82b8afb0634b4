// SPDX-License-Identifier: MIT
/// ResidualCopies: the residuals of other ranks, which a rank of an elastic run takes over where those are lost.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/archive.h"
#include "exchange/gradient_exchange.h"

namespace dragonn::trainer {

/// Each rank keeps a copy of the residual of the rank before it. A copy is what its owner had after its last commit,
/// and stays that until the owner exchanges again. From then on it is less: entries that anybody has sent since are
/// zero, so nothing that may have left its owner counts twice, and what the owner has gathered since is not there.
/// Costs 4 bytes of memory and of messages per element of a residual, momentum included (`dgc`: 8).
class ResidualCopies {
 public:
  /// A member that is lost, and the sum of the copy of its residual.
  struct Restored {
    int member = 0;
    double sum = 0;
  };

  /// Collective. Takes new copies in the place of those before; they count from commit() on.
  /// @param own this rank's archive, with its exchange.  @param members ids by rank.
  void take(comm::Communicator& communicator, const exchange::GradientExchange& exchange, const Archive& own,
            std::span<const int> members);
  /// All ranks have new copies.
  void commit();
  /// Forgets copies that have not been committed.
  void abandon() { taken_.clear(); }
  /// Takes out what an exchange has sent.
  void take_update(std::span<const exchange::BucketSum> sums);
  /// Adds the copies whose owners are none of `members`, ascending, to this rank's residual. Does not forget them.
  std::vector<Restored> add_lost(exchange::GradientExchange& exchange, std::span<const int> members) const;
  /// Forgets these.
  void forget_lost(std::span<const int> members);

 private:
  /// The values of a bucket in a memory, in one field of its owner's archive.
  struct Part {
    std::string field;
    std::size_t offset = 0;  // of the bucket in the arena
    std::vector<float> values = {};
  };
  std::map<int, std::vector<Part>> copies_, taken_;  // by owner
};

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// LeftState: the state that a rank takes along from one group of workers to the next, or gets from another rank.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/archive.h"
#include "trainer/run/checkpoint.h"

namespace dragonn::trainer {

/// The state that a rank of a group that is over had after its last commit. A rank that was not in that group trains on
/// with a copy of another rank's, in which nothing is left of what that rank has not sent.
class LeftState final : public StateSource {
 public:
  LeftState(int rank, int workers) : rank_(rank), workers_(workers) {}
  const Archive& model() override { return shared; }
  /// Returns this rank's own state, whichever is asked for.
  Archive rank(int /*rank*/) override { return own; }
  std::string name() const override { return is_copy_ ? "a copy of another worker's state" : "the generation before"; }
  int workers() override { return workers_; }
  bool has_same_ranks(int /*size*/) override { return has_same_ranks_; }
  /// Each rank goes on with its own state, and nobody with that of a rank that is gone.
  std::vector<exchange::RankToTake> ranks_to_take(int /*rank*/, int /*size*/) override {
    return {{rank_, {.memories = !is_copy_, .workers = workers_}}};
  }

  /// Says whether the next group consists of the same members.
  void set_same_ranks(bool is_same) { has_same_ranks_ = is_same; }
  bool is_copy() const { return is_copy_; }

  Archive shared, own;

 private:
  friend void share_state(comm::Communicator& communicator, std::unique_ptr<LeftState>& left);
  std::vector<std::byte> to_bytes() const;
  /// @param source names the rank for errors.
  static std::unique_ptr<LeftState> copy_of(std::span<const std::byte> bytes, int source);

  int rank_, workers_;
  bool is_copy_ = false;
  bool has_same_ranks_ = false;
};

/// Collective. Gives each rank that has no state, or an earlier copy, a copy of another one's: the ranks that have one
/// take turns. All meet between two parts of a copy: nobody waits longer than for a part, however large the state is.
/// @param left the state of this rank; null, or a copy: it has none, and receives one. Whatever fails, a state that a
/// rank had stays.  @throws CommError; DataError for a copy that is damaged.
void share_state(comm::Communicator& communicator, std::unique_ptr<LeftState>& left);

}  // namespace dragonn::trainer

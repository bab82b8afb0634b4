// SPDX-License-Identifier: MIT
/// LeftState: the state that a rank takes along from one group of workers to the next, or gets from another rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/archive.h"
#include "core/pieces.h"
#include "kernels/devices.h"
#include "trainer/run/checkpoint.h"

namespace dragonn::trainer {

struct TrainingState;  // trainer/run/training_state.h

/// The state that a rank of a group that is over had after its last commit. A rank that was not in that group trains on
/// with a copy of another rank's, in which nothing is left of what that rank has not sent.
class LeftState final : public StateSource {
 public:
  /// The member from which a stream has brought a copy, and the place at which that member had what is in it.
  struct Origin {
    int donor = 0;
    std::uint64_t place = 0;
  };
  /// Returns whether a field of a rank's own archive is of no use to others.
  using StaysWithRank = std::function<bool(const std::string& field)>;

  LeftState(int rank, int workers) : rank_(rank), workers_(workers) {}
  const Archive& model() override { return shared; }
  /// Returns this rank's own state, whichever is asked for.
  const Archive& rank(int /*rank*/) override { return own; }
  bool leaves_values() const override { return values_in_ != nullptr; }
  std::string name() const override { return is_copy() ? "a copy of another worker's state" : "the generation before"; }
  int workers() override { return workers_; }
  bool has_same_ranks(int /*size*/) override { return has_same_ranks_; }
  /// Each rank goes on with its own state, and nobody with that of a rank that is gone.
  std::vector<exchange::RankToTake> ranks_to_take(int /*rank*/, int /*size*/) override {
    return {{rank_, {.memories = !is_copy(), .workers = workers_}}};
  }

  /// Says whether the next group consists of the same members.
  void set_same_ranks(bool is_same) { has_same_ranks_ = is_same; }
  bool is_copy() const { return is_copy_; }
  const std::optional<Origin>& origin() const { return origin_; }

  /// Leaves the values that `shared` lacks (TrainingState::save_values) where this rank's next group finds them.
  /// @param state outlives this, or take_values() is called before.
  void leave_values(TrainingState& state) { values_in_ = &state; }
  /// Copies what has been left, for others.
  void take_values();

  /// Returns a copy for a rank that joins, as bytes.
  std::vector<std::byte> to_bytes() const {
    return message_for("", [](const std::string&) { return false; }).pieces.bytes();
  }
  /// Reads such bytes. @param source names the rank for errors. @throws DataError.
  static std::unique_ptr<LeftState> copy_of(std::span<const std::byte> bytes, const std::string& source,
                                            std::optional<Origin> origin = {});

  Archive shared, own;

 private:
  friend std::size_t share_state(comm::Communicator& communicator, std::unique_ptr<LeftState>& left,
                                 const StaysWithRank& stays_with_rank, const std::function<void()>& meanwhile);
  /// A message to another rank: where its fields lie in memory, or in copies of a device's.
  struct Message {
    std::deque<kernels::HostMirror<float>> mirrors;
    Pieces pieces;
  };

  /// Returns what a copy has: a line for each field, with its hash.
  std::string inventory() const;
  /// Returns what a copy with this inventory lacks to be equal to this state, and the names of what it keeps; valid as
  /// long as this state.
  Message message_for(const std::string& inventory, const StaysWithRank& stays_with_rank) const;
  /// Takes what `former` has and keeps, of a copy that was made for it.
  void keep_from(const LeftState& former);

  int rank_, workers_;
  bool is_copy_ = false;
  bool has_same_ranks_ = false;
  std::optional<Origin> origin_;
  TrainingState* values_in_ = nullptr;  // null: `shared` has them
  std::string kept_;                    // of a copy: the names of the fields that the former one keeps
};

/// Collective. Gives each rank that has no state, or a copy, the state of another one: the ranks that have one take
/// turns. Of a copy, by a stream or of a generation that did not begin, it sends what is not equal: a rank of a stream
/// lacks little. An optimizer of the donor's own stays as a stream brought it, for it changes in every step. All meet
/// between two parts: nobody waits longer than for a part, however large the state is.
/// @param left the state of this rank; null, or a copy: it receives one. Whatever fails, a state that a rank had stays.
/// @param meanwhile is called on ranks that neither give nor take, while the others do.
/// Returns the bytes that this rank has received. @throws CommError; DataError for a copy that is damaged.
std::size_t share_state(comm::Communicator& communicator, std::unique_ptr<LeftState>& left,
                        const LeftState::StaysWithRank& stays_with_rank, const std::function<void()>& meanwhile = {});

}  // namespace dragonn::trainer

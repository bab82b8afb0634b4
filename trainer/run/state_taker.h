// SPDX-License-Identifier: MIT
/// StateTaker: a process that is going to join an elastic run, and gets its state while others train.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "comm/elastic/member.h"
#include "comm/elastic/state_stream.h"
#include "trainer/run/left_state.h"
#include "trainer/run/training_state.h"
#include "trainer/update/update_scheme.h"

namespace dragonn::trainer {

/// Takes a copy of a donor's state, and makes the updates of the parameters that all ranks share as that donor has made
/// them: with the same optimizer, on the same sums, to the same bits.
class StateFollower {
 public:
  /// @param state of a rank that has not trained; its network and optimizer serve, and it outlives this.
  explicit StateFollower(TrainingState& state);
  /// @throws DataError, ConfigError for a state that does not fit.
  void begin(std::unique_ptr<LeftState> copy);
  void follow(std::span<const std::byte> update);
  /// Drops the copy: what follows is not known, so nothing of it would be equal.
  void drop() { copy_.reset(); }
  /// Returns the copy with what followed; null if there is none.
  std::unique_ptr<LeftState> take();

 private:
  void save();

  std::unique_ptr<UpdateScheme> scheme_;
  SharedModel model_;
  std::string optimizer_fields_;  // begin with this
  int threads_;
  std::unique_ptr<LeftState> copy_;
};

/// A follower that streams feed. docs/reliability.md explains the protocol.
class StateTaker {
 public:
  /// @param run Hello::run of the streams.  @param state of StateFollower.  All arguments outlive this.
  StateTaker(comm::Member& member, std::uint64_t run, TrainingState& state);

  /// Waits until so many updates of the last donor have been made, if that one still sends. Ends the stream, and
  /// returns the copy; null where there is none.
  std::unique_ptr<LeftState> finish(std::uint64_t updates);

 private:
  void take(comm::StreamKind kind, int donor, std::span<const std::byte> bytes);

  comm::Member& member_;
  StateFollower follower_;
  comm::StateReceiver receiver_;  // last: its thread uses the follower
};

}  // namespace dragonn::trainer

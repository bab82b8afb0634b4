// SPDX-License-Identifier: MIT
/// StateDonor: gives the state of an elastic run to processes that are going to join, while this rank trains.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/elastic/member.h"
#include "comm/elastic/state_stream.h"
#include "trainer/run/state_listener.h"

namespace dragonn::trainer {

/// Sends each taker a copy of the state that this rank has in front of its next meeting, and from there on the updates
/// of the parameters that all ranks share. Costs memory for a copy of what all ranks share until it is sent, and for
/// the updates that wait. A stream whose updates take more than twice the bytes of the copy, and 64 MiB, falls behind:
/// the taker then gets the rest when it joins.
class StateDonor final : public StateListener {
 public:
  /// @param share of the link that a stream takes.  @param follows whether takers can make this rank's updates: on the
  /// CPU.  The member outlives this.
  StateDonor(comm::Member& member, double share, bool follows);
  ~StateDonor() override;
  StateDonor(const StateDonor&) = delete;
  StateDonor& operator=(const StateDonor&) = delete;

  bool wants_copy(std::uint64_t place) override;
  void take_copy(std::uint64_t place, const LeftState& copy) override;
  void take_update(const LoggedUpdate& update) override;
  bool wants_mass() const override { return member_.wants_mass(); }
  void take_mass(std::uint64_t place, double sum, double l1) override {
    if (std::isfinite(l1)) member_.set_mass({place, sum, l1});
  }

  /// Returns the number of updates that have been given to a member, and sends what is left of them at once.
  std::uint64_t hurry(int taker);
  /// Ends the streams to these members, which have begun to train.
  void end(const std::vector<int>& members);

 private:
  /// A process that gets the state.
  struct Stream {
    std::unique_ptr<comm::StateSender> sender;
    bool has_copy = false;
    bool is_behind = false;
    bool is_replaced = false;  // by another stream to the same taker, or the taker has the state
    std::size_t limit = 0;     // bytes that may wait
    std::uint64_t updates = 0;
  };

  /// Takes out the streams that have ended. The caller holds the lock.
  std::vector<Stream> take_ended();

  comm::Member& member_;
  double share_;
  bool follows_;
  std::mutex mutex_;  // the member's thread adds streams
  std::vector<Stream> streams_;
};

}  // namespace dragonn::trainer

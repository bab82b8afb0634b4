// SPDX-License-Identifier: MIT
/// Commits: the agreements of a run after which a rank's work counts, and what happens where one fails.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "core/error.h"

namespace dragonn::comm {
class Member;  // comm/elastic/member.h
}

namespace dragonn::trainer {

/// This rank's group trains no more; the run goes on with another one.
class GenerationOver : public CommError {
 public:
  GenerationOver() : CommError("this generation of workers is over") {}
};

/// Counts what a rank has committed: in an elastic run steps, evaluations, beginnings of generations and the end. All
/// ranks commit the same things in the same order, so one number, the place, says how far a rank is. Outlives groups.
class Commits {
 public:
  /// The place at which a replay leaves a generation, or the number of steps after which it ends.
  struct End {
    std::optional<std::uint64_t> place = {};
    std::optional<std::uint64_t> step = {};
  };

  /// An elastic run: the member's coordinator decides where an agreement fails. The member outlives this.
  void follow(comm::Member& member) { member_ = &member; }
  /// A replay of one, which leaves its present generation where the run did.
  void leave_at(const End& end) { end_ = end; }
  /// A rank that joins: it goes on from the place at which its first generation begins.
  void begin_at(std::uint64_t place) { place_ = place; }
  bool is_elastic() const { return member_ != nullptr || end_.has_value(); }

  /// Collective. Runs `agree`, which each rank enters when it has all that it takes to commit. Returns when this rank
  /// may commit: all were there; or the group has failed, and some rank that is left has committed.
  template <class Agree>
  void run(Agree&& agree) {
    try {
      std::forward<Agree>(agree)();
    } catch (const CommError& failure) {
      if (!is_settled(failure)) throw;
    }
    ++place_;
  }
  /// Collective. Does what ranks do together between two commits. In an elastic run nothing follows from a group that
  /// fails here: the next meeting finds it, so all ranks leave the group there, with the same steps behind the place.
  template <class Work>
  void between(Work&& work) const {
    try {
      std::forward<Work>(work)();
    } catch (const CommError&) {
      if (!is_elastic()) throw;
    }
  }
  /// Throws GenerationOver if this rank is to leave its group in front of what it would do next. @param step done, if
  /// the next is a step.
  void require_group(std::optional<std::uint64_t> step = {}) const;
  /// The same between two meetings, for a rank that leaves an elastic run or stops it: others go on to their meeting.
  void require_group_of_leaver() const;
  /// Returns whether the run is to stop with a checkpoint: on a signal. In an elastic run a signal makes this member
  /// leave instead, and the coordinator says whether the run stops.
  bool wants_stop() const;
  std::uint64_t place() const { return place_; }

 private:
  /// Returns whether the agreement that failed counts.
  bool is_settled(const CommError& failure);

  comm::Member* member_ = nullptr;
  std::optional<End> end_;
  std::uint64_t place_ = 0;
};

}  // namespace dragonn::trainer

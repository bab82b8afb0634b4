// SPDX-License-Identifier: MIT
/// Membership: the coordinator's decisions of an elastic run: who trains together, from where, and what counts. A state
/// machine without sockets, threads and clocks. docs/reliability.md explains the protocol.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dragonn::comm {

/// The members that train together, and the place from which they go on. A place is the number of agreements (steps,
/// evaluations, beginnings of generations) that a member has committed since the run began.
struct GenerationPlan {
  std::uint64_t number = 0;       ///< counts from 1
  std::uint64_t place = 0;        ///< of all members when it begins
  std::vector<int> members = {};  ///< ids, ascending: a member's index is its rank
  std::size_t first = 0;          ///< the number of members of the first generation
  bool stops = false;             ///< too few are left, or the run is to stop: they save a checkpoint and end

  auto operator<=>(const GenerationPlan&) const = default;
};

/// All that a coordinator that is started again must know to take up a run.
struct LastGeneration {
  GenerationPlan plan = {};
  std::string why = {};                     ///< the generation before ended
  std::map<int, std::uint64_t> since = {};  ///< the place at which the first generation of each member began
  std::uint64_t reached = 0;                ///< the furthest place that a member has reported, or ended the run at

  auto operator<=>(const LastGeneration&) const = default;
};

/// The coordinator's word to a member.
struct Order {
  enum class Kind {
    kYield,  ///< the generation `plan` ends without a failure: leave it in front of your next agreement, and report
    kEnd,    ///< the generation `plan` is over: whatever you wait for in it, report your place
    kStop,   ///< stop the run with a checkpoint, together with your present generation
    kForm,   ///< train as generation `plan`
    kDrop,   ///< you are no member
    kFetch,  ///< the run has begun: you get its state, and say when you have it
    kGive,   ///< give the state of the run to `taker` while you train
  };
  Kind kind = Kind::kEnd;
  int member = 0;
  int taker = -1;
  GenerationPlan plan = {};
  std::string why = {};

  auto operator<=>(const Order&) const = default;
};

/// Returns whether the agreement counts at which a member's generation ended, when the next one is `next`.
/// @param place that the member reported.  @param is_prepared the member was in the agreement behind that place, and
/// has all that it takes to commit it.  @throws Error if the member cannot go on from that place, which is a defect.
bool counts(const GenerationPlan& next, std::uint64_t place, bool is_prepared);

/// The members that are there, and the reports of each. A process that comes later fetches the state of the run from a
/// donor, one of those that train; a generation ends for it when it has that. A member has the state once it has
/// committed the beginning of a generation, where it gets what it lacks from those that have it. So it also has it if
/// another member has committed that beginning.
class Membership {
 public:
  /// @param workers the first generation begins when so many have joined.  @param min_workers with fewer a run stops.
  /// @param max_workers so many train together at most, no fewer than `workers`.
  Membership(int workers, int min_workers, int max_workers)
      : workers_(workers), min_workers_(min_workers), max_workers_(max_workers) {}
  /// Takes up the run of a coordinator that is gone. The members of its last generation count as training in that until
  /// they have come back and said more, or leave().
  Membership(int min_workers, int max_workers, const LastGeneration& last);

  // Events. Each may lead to orders.

  /// A process has come, with an id that nobody has had. If the run has begun, it fetches the state; it is dropped if
  /// the run is full, or at its end.
  void join(int member);
  /// A process that fetches the state has it, or all that it can get while the others train: the generation ends for
  /// it.
  void ready(int member);
  /// A process that fetches the state has lost this donor, or waits for one in vain (its own id): another one gives it,
  /// if there is one.
  void fetch_again(int member, int lost);
  /// A member of the coordinator that is gone has come back, and was told of this generation last. It is told what it
  /// may have missed; what it has said since it was told says it again.
  void come_back(int member, std::uint64_t generation);
  /// The first generation begins with those that are there. Does nothing if they are too few, or it has begun.
  void begin_with_fewer();
  /// A member is dead, silent or has left.
  void leave(int member, const std::string& why);
  /// A member wants to leave, and is at `place`. The generation ends for it; but if too few of those that have the
  /// state would be left, the run stops.
  void ask_to_leave(int member, std::uint64_t place);
  /// The run is to stop with a checkpoint.
  void stop();
  /// A member's group has failed, or it obeys kEnd: it trains no more in that generation.
  void report(int member, std::uint64_t generation, std::uint64_t place, const std::string& why);
  /// A member has committed the end of the run.
  void finish(int member, std::uint64_t place);

  /// Takes the orders since the last call.
  std::vector<Order> take_orders();
  const GenerationPlan& generation() const { return plan_; }
  bool has_begun() const { return phase_ != Phase::kGathering; }
  LastGeneration last() const;
  bool is_present(int member) const { return present_.contains(member); }
  std::size_t present() const { return present_.size(); }
  /// Returns whether nobody trains any more, and nobody will.
  bool is_over() const { return phase_ == Phase::kOver; }

  auto operator<=>(const Membership&) const = default;

 private:
  enum class Phase { kGathering, kTraining, kYielding, kEnding, kOver };
  enum class Standing { kFetching, kTraining, kReported, kFinished };
  struct Present {
    Standing standing = Standing::kReported;  // reported: waits for a generation
    std::optional<std::uint64_t> since = {};  // the place at which its first generation began
    bool leaves = false;                      // when it has reported
    std::optional<int> donor = {};            // of one that fetches; none: nobody can give the state now

    auto operator<=>(const Present&) const = default;
  };

  bool is_ending() const { return phase_ == Phase::kYielding || phase_ == Phase::kEnding; }
  bool has_finished() const;
  /// Returns whether nobody that waits for a generation has the state of the run.
  bool is_lost() const;
  bool has_state(const Present& member) const { return place_ == 0 || (member.since && *member.since < place_); }
  bool can_give(const Present& member) const {
    const bool is_there = member.standing == Standing::kTraining || member.standing == Standing::kReported;
    return is_there && member.since && has_state(member) && !member.leaves;
  }
  /// Finds donors for those that fetch the state and have none, or one that can give it no more.
  void assign_donors();
  /// Finds another donor than the present one, if there is one.
  void assign_donor(int member, Present& fetching);
  /// Drops those that fetch the state.
  void drop_fetching(const char* why);
  /// Ends the generation that trains: those that have not reported are asked to.
  void end(Phase phase);
  /// Drops those that came too late to get the state of the run.
  void drop_latecomers();
  /// Forms the next generation when nobody is left to report.
  void form_if_known();
  void form();

  int workers_, min_workers_, max_workers_;
  Phase phase_ = Phase::kGathering;
  bool stops_ = false;
  GenerationPlan plan_;
  std::uint64_t place_ = 0;         // the furthest that was reported
  std::map<int, Present> present_;  // by id
  std::string why_;                 // the present generation ended
  std::vector<Order> orders_;
};

}  // namespace dragonn::comm

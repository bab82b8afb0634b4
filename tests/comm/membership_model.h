// SPDX-License-Identifier: MIT
/// A model of an elastic run (docs/reliability.md), of which every state is visited: every order of steps, words,
/// reports, orders, deaths, silences and cut links of members, and of processes that join them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "comm/elastic/membership.h"

namespace dragonn::comm::test {

/// A run of so many agreements, and the faults that it may meet.
struct Model {
  int members;
  std::uint64_t places;
  int min_workers = 1;
  int deaths = 0;
  int silences = 0;  ///< the coordinator drops a member that lives, and goes on for a while
  int cuts = 0;      ///< of connections between two members
  int leaves = 0;    ///< members that get a signal
  int joiners = 0;   ///< processes that may come when the run has begun, one after the other
  int breaks = 0;    ///< of streams of state to them
  int max_workers = 9;
  int restarts = 0;  ///< of the coordinator, which has its journal alone

  int processes() const { return members + joiners; }
};

/// A member: it computes, then agrees with its group on the next place, then computes again.
struct Actor {
  enum class State {
    kAbsent,
    kFetching,
    kWaiting,
    kComputing,
    kAgreeing,
    kReported,
    kFinished,
    kStopped,
    kDropped,
    kDead
  };
  State state = State::kWaiting;
  std::uint64_t generation = 0;
  std::uint64_t place = 0;
  bool was_agreeing = false;  // when it reported
  bool is_told = false;       // that its generation is over
  bool is_asked = false;      // to leave it in front of its next agreement
  bool has_state = true;      // of the run
  bool leaves = false;        // has said that it wants to leave
  bool has_ended = false;     // the run, and a coordinator has heard of it
  unsigned words = 0;         // of the members that are in the agreement, too
  std::vector<int> group = {};
  std::set<int> takers = {};                // those to which it gives the state
  std::vector<std::uint64_t> history = {};  // the generation in which each place was committed

  auto operator<=>(const Actor&) const = default;
};

/// A member's word to the coordinator.
struct Report {
  enum class Kind { kReport, kLeave, kEnd, kReady, kAgain, kReturn };
  Kind kind = Kind::kReport;
  std::uint64_t generation = 0, place = 0;
  int donor = 0;
  auto operator<=>(const Report&) const = default;
};

/// A connection from one member to another carries words in order, of the generation in which both are.
struct World {
  Membership coordinator;
  std::vector<Actor> actors;
  std::vector<std::vector<Report>> reports;  // under way, by member, in order
  std::vector<std::vector<Order>> orders;
  std::set<std::pair<int, int>> cut;  // links of the present generation, both ways
  LastGeneration journal = {};
  std::set<int> missing = {};  // members of the coordinator before, which have not come back
  int deaths = 0, silences = 0, cuts = 0, leaves = 0, breaks = 0, restarts = 0;

  auto operator<=>(const World&) const = default;
};

/// Visits every state of a model, and checks what must hold in each.
class Search {
 public:
  using State = Actor::State;
  explicit Search(const Model& model) : model_(model) {}

  void run() {
    World first{Membership(model_.members, model_.min_workers, model_.max_workers), {}, {}, {}, {}};
    const auto processes = static_cast<std::size_t>(model_.processes());
    first.actors.resize(processes);
    first.reports.resize(processes);
    first.orders.resize(processes);
    for (int joiner = model_.members; joiner < model_.processes(); ++joiner) {
      first.actors[at(joiner)].state = State::kAbsent;
      first.actors[at(joiner)].has_state = false;
    }
    for (int member = 0; member < model_.members; ++member) first.coordinator.join(member);
    send_orders(first);
    add(first);
    while (!left_.empty()) {
      const World& world = *left_.back();
      left_.pop_back();
      const std::size_t before = moves_;
      for (int member = 0; member < model_.processes(); ++member) {
        compute(world, member);
        fail(world, member);
        for (int peer = 0; peer < model_.processes(); ++peer) take_state(world, member, peer);
        for (int peer = 0; peer < model_.processes(); ++peer) stream(world, member, peer);
        for (int peer = 0; peer < model_.processes(); ++peer) hear(world, member, peer);
        obey(world, member);
        hear_report(world, member);
        notice_end(world, member);
        finish_run(world, member);
      }
      const std::size_t without_faults = moves_;
      for (int member = 0; member < model_.processes(); ++member) disturb(world, member);
      for (int joiner = model_.members; joiner < model_.processes(); ++joiner) join(world, joiner);
      restart(world);
      check(world);
      if (without_faults == before) check_end(world);
    }
  }
  /// The members that had finished, and those that had stopped, at each end that was seen.
  const std::set<std::pair<std::set<int>, std::set<int>>>& ends() const { return ends_; }
  bool was_abandoned() const { return was_abandoned_; }
  bool was_settled() const { return was_settled_; }
  /// The places from which processes that joined have trained, in any of the orders.
  const std::set<std::uint64_t>& joined_at() const { return joined_at_; }

 private:
  static std::size_t at(int member) { return static_cast<std::size_t>(member); }
  void add(World world) {
    ++moves_;
    if (const auto [place, is_new] = seen_.insert(std::move(world)); is_new) left_.push_back(&*place);
  }
  static void send_orders(World& world) {
    const LastGeneration last = world.coordinator.last();
    if (last.plan.number > world.journal.plan.number || last.reached > world.journal.reached) {
      world.journal = last;
      world.journal.why.clear();
    }
    for (Order& order : world.coordinator.take_orders()) {
      if (world.missing.contains(order.member)) continue;  // nobody hears it
      order.why.clear();
      world.orders[at(order.member)].push_back(order);
    }
  }
  static bool is_in_group(const Actor& actor) {
    return actor.state == State::kComputing || actor.state == State::kAgreeing;
  }
  static void commit(Actor& actor) {
    ++actor.place;
    actor.history.push_back(actor.generation);
    actor.words = 0;
  }

  /// A member has computed, and begins the agreement.
  void compute(World world, int member) {
    Actor& actor = world.actors[at(member)];
    if (actor.state != State::kComputing || actor.place == model_.places || !actor.has_state) return;
    actor.state = State::kAgreeing;
    complete(actor, member);
    add(std::move(world));
  }
  static void complete(Actor& actor, int member) {
    for (const int peer : actor.group)
      if (peer != member && (actor.words >> at(peer) & 1U) == 0) return;
    commit(actor);
    actor.state = State::kComputing;
  }
  /// A process comes. Its id is one that nobody has had.
  void join(World world, int joiner) {
    if (world.actors[at(joiner)].state != State::kAbsent || world.actors[at(joiner - 1)].state == State::kAbsent)
      return;
    world.actors[at(joiner)].state = State::kFetching;
    world.coordinator.join(joiner);
    send_orders(world);
    add(std::move(world));
  }
  /// A donor's stream comes to its end, or ends before, with the donor.
  void stream(const World& world, int taker, int donor) {
    const Actor& giver = world.actors[at(donor)];
    // A process that has not been told to fetch the state takes none: the donor waits.
    const bool is_told =
        std::ranges::find(world.orders[at(taker)], Order::Kind::kFetch, &Order::kind) == world.orders[at(taker)].end();
    if (world.actors[at(taker)].state != State::kFetching || !is_told || !giver.takers.contains(taker)) return;
    const bool is_there = is_in_group(giver) || giver.state == State::kReported;
    World next = world;
    next.actors[at(donor)].takers.erase(taker);
    if (is_there) {
      REQUIRE(giver.has_state);
      next.actors[at(taker)].state = State::kWaiting;
      next.reports[at(taker)].push_back({Report::Kind::kReady});
      add(next);
    }
    const bool breaks = is_there && world.breaks < model_.breaks;
    if (is_there && !breaks) return;
    if (breaks) ++next.breaks;
    next.actors[at(taker)].state = State::kFetching;
    next.reports[at(taker)] = world.reports[at(taker)];
    next.reports[at(taker)].push_back({.kind = Report::Kind::kAgain, .donor = donor});
    add(std::move(next));
  }
  /// A member that has joined gets the state from a peer that has it, when both have begun the generation.
  void take_state(World world, int member, int peer) {
    Actor& actor = world.actors[at(member)];
    const Actor& donor = world.actors[at(peer)];
    const bool is_there = donor.state == State::kComputing || donor.state == State::kAgreeing;
    if (actor.state != State::kComputing || actor.has_state || !donor.has_state || !is_there ||
        donor.generation != actor.generation || world.cut.contains({std::min(member, peer), std::max(member, peer)}))
      return;
    REQUIRE(donor.place == actor.place);
    actor.has_state = true;
    actor.history = donor.history;
    joined_at_.insert(actor.place);
    add(std::move(world));
  }
  /// A word of a peer comes. The peer has sent it if it is in the agreement, or was: also if it has failed since.
  void hear(World world, int member, int peer) {
    Actor& actor = world.actors[at(member)];
    const Actor& other = world.actors[at(peer)];
    const bool are_linked = member != peer && std::ranges::count(actor.group, peer) > 0 &&
                            !world.cut.contains({std::min(member, peer), std::max(member, peer)});
    if (actor.state != State::kAgreeing || !are_linked || (actor.words >> at(peer) & 1U) != 0) return;
    // It committed this place in this generation, or is or was in the agreement.
    const bool has_passed = other.history.size() > actor.place && other.history[actor.place] == actor.generation;
    const bool is_there = other.generation == actor.generation && other.place == actor.place &&
                          (other.state == State::kAgreeing || other.was_agreeing);
    if (!has_passed && !is_there) return;
    actor.words |= 1U << at(peer);
    complete(actor, member);
    add(std::move(world));
  }
  /// An operation of the member fails: the generation is over, a peer is gone, or a link is cut.
  void fail(World world, int member) {
    Actor& actor = world.actors[at(member)];
    const bool waits = actor.state == State::kAgreeing || (actor.state == State::kComputing && !actor.has_state);
    if (!waits) return;
    const auto is_lost = [&](int peer) {
      const Actor& other = world.actors[at(peer)];
      const bool is_gone = other.state == State::kDead || other.state == State::kDropped;
      const bool has_left = other.generation == actor.generation && !is_in_group(other);
      return is_gone || has_left || other.generation > actor.generation ||
             world.cut.contains({std::min(member, peer), std::max(member, peer)});
    };
    if (!actor.is_told && std::ranges::none_of(actor.group, is_lost)) return;
    report(world, member);
    add(std::move(world));
  }
  static void report(World& world, int member) {
    Actor& actor = world.actors[at(member)];
    actor.was_agreeing = actor.state == State::kAgreeing;
    actor.state = State::kReported;
    world.reports[at(member)].push_back({Report::Kind::kReport, actor.generation, actor.place});
  }
  /// A member that computes learns that its generation is over before its next step.
  void notice_end(World world, int member) {
    Actor& actor = world.actors[at(member)];
    const bool knows = actor.is_told || actor.is_asked;
    if (actor.state != State::kComputing || !knows || actor.place == model_.places) return;
    report(world, member);
    add(std::move(world));
  }
  /// A member that has committed the last place says so.
  void finish_run(World world, int member) {
    Actor& actor = world.actors[at(member)];
    if (actor.state != State::kComputing || actor.place != model_.places) return;
    actor.state = State::kFinished;
    world.reports[at(member)].push_back({Report::Kind::kEnd, actor.generation, actor.place});
    add(std::move(world));
  }
  /// The coordinator's oldest order comes.
  void obey(World world, int member) {
    if (world.orders[at(member)].empty()) return;
    const Order order = world.orders[at(member)].front();
    world.orders[at(member)].erase(world.orders[at(member)].begin());
    Actor& actor = world.actors[at(member)];
    if (actor.state == State::kDead || actor.state == State::kDropped || actor.state == State::kFinished)
      return add(std::move(world));
    if (order.kind == Order::Kind::kDrop) {
      actor.state = State::kDropped;
    } else if (order.kind == Order::Kind::kEnd) {
      if (order.plan.number == actor.generation) actor.is_told = true;
    } else if (order.kind == Order::Kind::kGive) {
      actor.takers.insert(order.taker);
    } else if (order.kind == Order::Kind::kFetch) {
      REQUIRE(actor.state == State::kFetching);
    } else if (order.kind == Order::Kind::kStop) {
      // It would agree with its group to stop. Here the group trains on, until the next one stops at its beginning.
    } else if (order.kind == Order::Kind::kYield) {
      if (order.plan.number == actor.generation) actor.is_asked = true;
    } else {
      REQUIRE((actor.state == State::kReported || actor.state == State::kWaiting));
      if (order.plan.place == 0) actor.has_state = true;  // all begin the run
      if (!actor.has_state) {
        if (actor.state == State::kWaiting) actor.place = order.plan.place;
        const auto has_state = [&](int id) { return world.actors[at(id)].has_state; };
        REQUIRE(std::ranges::any_of(order.plan.members, has_state));
      }
      if (counts(order.plan, actor.place, actor.was_agreeing)) {
        commit(actor);
        was_settled_ = true;
      } else if (actor.was_agreeing) {
        was_abandoned_ = true;
      }
      actor.words = 0;
      actor.was_agreeing = actor.is_told = actor.is_asked = false;
      actor.generation = order.plan.number;
      actor.group = order.plan.members;
      const bool stops = order.plan.stops && actor.place < model_.places;  // whose end counts has ended
      actor.state = stops ? State::kStopped : State::kComputing;
      if (stops) world.reports[at(member)].push_back({Report::Kind::kEnd, actor.generation, actor.place});
      std::erase_if(world.cut, [&](const auto& link) { return link.first == member || link.second == member; });
    }
    add(std::move(world));
  }
  /// The coordinator ends with all that is under way from and to it, and is started again.
  void restart(const World& world) {
    if (world.restarts == model_.restarts || world.coordinator.is_over()) return;
    World next = world;
    ++next.restarts;
    next.coordinator = Membership(model_.min_workers, model_.max_workers, world.journal);
    next.missing = {world.journal.plan.members.begin(), world.journal.plan.members.end()};
    for (int member = 0; member < model_.processes(); ++member) {
      Actor& actor = next.actors[at(member)];
      const std::vector<Report> unheard = std::exchange(next.reports[at(member)], {});
      next.orders[at(member)].clear();
      actor.takers.clear();
      const bool has_trained = actor.generation > 0;
      if (!has_trained && (actor.state == State::kFetching || actor.state == State::kWaiting))
        actor.state = State::kDropped;  // it ends
      const bool has_ended = actor.state == State::kFinished || actor.state == State::kStopped;
      const bool is_heard = std::ranges::find(unheard, Report::Kind::kEnd, &Report::kind) == unheard.end();
      if (!has_trained || actor.state == State::kDead || actor.state == State::kDropped || (has_ended && is_heard))
        continue;
      std::vector<Report>& reports = next.reports[at(member)];
      reports.push_back({Report::Kind::kReturn, actor.generation});
      if (actor.leaves) reports.push_back({Report::Kind::kLeave, actor.generation, actor.place});
      if (actor.state == State::kReported) reports.push_back({Report::Kind::kReport, actor.generation, actor.place});
      if (has_ended) reports.push_back({Report::Kind::kEnd, actor.generation, actor.place});
    }
    add(std::move(next));
  }
  void hear_report(World world, int member) {
    if (world.reports[at(member)].empty()) return;
    const Report report = world.reports[at(member)].front();
    world.reports[at(member)].erase(world.reports[at(member)].begin());
    if (report.kind == Report::Kind::kReturn) {
      if (world.missing.erase(member) > 0) {
        world.coordinator.come_back(member, report.generation);
      } else {
        world.reports[at(member)].clear();
        world.orders[at(member)].push_back({.kind = Order::Kind::kDrop, .member = member});
      }
    } else if (report.kind == Report::Kind::kEnd) {
      world.actors[at(member)].has_ended |= world.coordinator.is_present(member);
      world.coordinator.finish(member, report.place);
    } else if (report.kind == Report::Kind::kReady) {
      world.coordinator.ready(member);
    } else if (report.kind == Report::Kind::kAgain) {
      world.coordinator.fetch_again(member, report.donor);
    } else if (report.kind == Report::Kind::kLeave) {
      world.coordinator.ask_to_leave(member, report.place);
    } else {
      world.coordinator.report(member, report.generation, report.place, "");
    }
    send_orders(world);
    add(std::move(world));
  }
  /// A fault: a death, a member that the coordinator takes for dead, a cut link.
  void disturb(const World& world, int member) {
    const Actor& actor = world.actors[at(member)];
    const bool fetches = actor.state == State::kFetching;
    const bool has_joined = member >= model_.members && (fetches || actor.state == State::kWaiting);
    const bool is_at_work = is_in_group(actor) || actor.state == State::kReported || has_joined;
    if (is_at_work && world.deaths < model_.deaths) {
      World next = world;
      ++next.deaths;
      next.actors[at(member)].was_agreeing |= actor.state == State::kAgreeing;  // its word may still come
      next.actors[at(member)].state = State::kDead;
      add(std::move(next));
    }
    // The coordinator learns of a death, and perhaps not of what the dead had said.
    if (is_lost(world, member)) {
      World next = world;
      next.reports[at(member)].clear();
      next.missing.erase(member);
      next.coordinator.leave(member, "");
      send_orders(next);
      add(std::move(next));
    }
    if (is_at_work && world.silences < model_.silences && world.coordinator.is_present(member)) {
      World next = world;
      ++next.silences;
      next.missing.erase(member);
      next.reports[at(member)].clear();
      next.coordinator.leave(member, "");
      next.orders[at(member)].push_back({.kind = Order::Kind::kDrop, .member = member});
      send_orders(next);
      add(std::move(next));
    }
    const bool wants_to_leave = world.leaves < model_.leaves && is_in_group(actor) && !actor.leaves;
    if (wants_to_leave) {
      World next = world;
      ++next.leaves;
      next.actors[at(member)].leaves = true;
      next.reports[at(member)].push_back({Report::Kind::kLeave, actor.generation, actor.place});
      add(std::move(next));
    }
    for (const int peer : actor.group) {
      if (peer <= member || world.cuts == model_.cuts || !is_in_group(actor)) continue;
      World next = world;
      ++next.cuts;
      next.cut.insert({member, peer});
      add(std::move(next));
    }
  }

  /// Checks that no two members have committed a place in different generations. Lost members do not count.
  void check(const World& world) const {
    std::vector<std::uint64_t> longest;
    const auto counts_here = [&](int member) {
      const Actor& actor = world.actors[at(member)];
      const bool is_there =
          actor.state != State::kDead && actor.state != State::kDropped && world.coordinator.is_present(member);
      return (is_there || actor.has_ended) && actor.has_state;
    };
    for (int member = 0; member < model_.processes(); ++member)
      if (counts_here(member) && world.actors[at(member)].history.size() > longest.size())
        longest = world.actors[at(member)].history;
    for (int member = 0; member < model_.processes(); ++member) {
      if (!counts_here(member)) continue;
      const auto& history = world.actors[at(member)].history;
      REQUIRE(std::equal(history.begin(), history.end(), longest.begin()));
      REQUIRE(history.size() + 1 >= std::min<std::size_t>(longest.size(), world.coordinator.generation().place));
    }
  }
  /// Checks a state after which nothing happens without a further fault.
  void check_end(const World& world) {
    std::set<int> finished, stopped;
    for (int member = 0; member < model_.processes(); ++member) {
      const Actor& actor = world.actors[at(member)];
      // A member that is dropped before the coordinator has heard of its end ends as dropped.
      if (actor.state == State::kFinished && world.coordinator.is_present(member)) finished.insert(member);
      if (actor.state == State::kStopped) stopped.insert(member);
      const bool is_gone =
          actor.state == State::kDead || actor.state == State::kDropped || actor.state == State::kAbsent;
      // A death that the coordinator has not learnt of is a move to come.
      if (!is_gone && !has_unknown_death(world))
        REQUIRE((actor.state == State::kFinished || actor.state == State::kStopped));
    }
    if (has_unknown_death(world)) return;
    REQUIRE(world.coordinator.is_over());
    REQUIRE((finished.empty() || stopped.empty()));
    ends_.insert({finished, stopped});
  }
  bool has_unknown_death(const World& world) const {
    for (int member = 0; member < model_.processes(); ++member)
      if (is_lost(world, member)) return true;
    return false;
  }
  /// Returns whether a member is gone, and the coordinator has not learnt of it: it is dead, or will not come back.
  static bool is_lost(const World& world, int member) {
    const bool returns = !world.reports[at(member)].empty();
    const bool is_dead = world.actors[at(member)].state == State::kDead;
    return world.coordinator.is_present(member) && (is_dead || (world.missing.contains(member) && !returns));
  }

  Model model_;
  std::set<World> seen_;
  std::vector<const World*> left_;
  std::size_t moves_ = 0;
  std::set<std::pair<std::set<int>, std::set<int>>> ends_;
  bool was_abandoned_ = false, was_settled_ = false;
  std::set<std::uint64_t> joined_at_;
};

}  // namespace dragonn::comm::test

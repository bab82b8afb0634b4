// SPDX-License-Identifier: MIT
/// Tests of the agreement on a stop between two meetings: every order of steps, signals and messages of a few ranks,
/// and real ranks.
#include "trainer/run/stop_agreement.h"

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"

namespace dragonn::trainer {
namespace {

/// A run of a few ranks, of which every period-th step and the last one are meetings.
struct Model {
  int ranks;
  int period;
  int steps;
  int signals;  ///< of different ranks, at most

  bool is_meeting(int step) const { return step % period == 0 || step == steps; }
};

/// A state of such a run: the ranks, and the notifications that are under way, in order for each pair.
struct World {
  std::vector<MeetingView> views;
  std::vector<int> steps;  // done
  std::vector<bool> is_signaled;
  std::vector<bool> is_told;      // of a stop of its next meeting
  std::vector<std::string> ways;  // by source, then destination; a letter is kind and meeting

  auto operator<=>(const World&) const = default;
};

/// Visits every state of a model, and checks what must hold in each.
class Search {
 public:
  explicit Search(const Model& model) : model_(model) {}

  void run() {
    World first;
    for (int rank = 0; rank < model_.ranks; ++rank) first.views.emplace_back(rank, model_.ranks);
    const auto ranks = static_cast<std::size_t>(model_.ranks);
    first.steps.resize(ranks);
    first.is_signaled.resize(ranks);
    first.is_told.resize(ranks);
    first.ways.resize(ranks * ranks);
    add(first);
    while (!left_.empty()) {
      const World world = left_.front();
      left_.pop_front();
      const std::size_t before = moves_;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        act(world, rank);
        signal(world, rank);
        for (std::size_t source = 0; source < ranks; ++source) deliver(world, source, rank);
      }
      check_meetings(world);
      if (moves_ == before) check_end(world);
    }
  }
  /// The numbers of steps by which ranks have stopped, or all have ended.
  const std::set<std::vector<int>>& ends() const { return ends_; }
  bool was_asked() const { return was_asked_; }

 private:
  using State = MeetingView::State;

  void add(World world) {
    ++moves_;
    if (const auto [place, is_new] = seen_.insert(std::move(world)); is_new) left_.push_back(*place);
  }
  bool is_done(const World& world, std::size_t rank) const {
    return world.steps[rank] == model_.steps || world.views[rank].state() == State::kStopped;
  }
  void tell(World& world, std::size_t rank, std::optional<MeetingView::Kind> kind, std::uint64_t meeting) const {
    const auto ranks = static_cast<std::size_t>(model_.ranks);
    for (std::size_t peer = 0; kind && peer < ranks; ++peer)
      if (peer != rank) world.ways[rank * ranks + peer] += static_cast<char>(16 * meeting + *kind);
  }
  /// A rank makes a step, or looks whether it may.
  void act(World world, std::size_t rank) {
    if (is_done(world, rank)) return;
    MeetingView& view = world.views[rank];
    const std::uint64_t meeting = view.meeting();
    if (view.state() == State::kComputing) {
      const bool meets = model_.is_meeting(world.steps[rank] + 1);
      tell(world, rank, view.before_step(world.is_signaled[rank], meets), meeting);
      if (world.is_told[rank] || world.is_signaled[rank]) REQUIRE(view.state() == State::kStopped);
      if (view.state() == State::kComputing) ++world.steps[rank];
      return add(std::move(world));
    }
    const auto asks = view.while_waiting(world.is_signaled[rank]);
    tell(world, rank, asks, meeting);
    was_asked_ = was_asked_ || asks;
    if (view.state() == State::kWaiting && !asks) return;  // nothing has changed
    if (view.state() == State::kComputing) {
      ++world.steps[rank];
      world.is_told[rank] = false;
    }
    add(std::move(world));
  }
  void signal(World world, std::size_t rank) {
    if (std::ranges::count(world.is_signaled, true) == model_.signals || world.is_signaled[rank]) return;
    world.is_signaled[rank] = true;
    if (!is_done(world, rank)) add(std::move(world));
  }
  void deliver(World world, std::size_t source, std::size_t destination) {
    std::string& way = world.ways[source * static_cast<std::size_t>(model_.ranks) + destination];
    if (way.empty()) return;
    const auto kind = static_cast<std::uint64_t>(way.front()) % 16,
               meeting = static_cast<std::uint64_t>(way.front()) / 16;
    way.erase(0, 1);
    MeetingView& view = world.views[destination];
    view.receive({.kind = kind, .value = meeting, .source = static_cast<int>(source)});
    if (kind != MeetingView::kArrive && meeting == view.meeting()) world.is_told[destination] = true;
    add(std::move(world));
  }

  /// Nobody is past a meeting before which another has stopped.
  void check_meetings(const World& world) const {
    for (const MeetingView& one : world.views) {
      if (one.state() != State::kStopped) continue;
      for (const MeetingView& other : world.views) REQUIRE(other.meeting() <= one.meeting());
    }
  }
  /// Checks a state after which nothing can happen: all ranks have ended, or all have stopped before one meeting.
  void check_end(const World& world) {
    const auto stopped = std::ranges::count(world.views, State::kStopped, &MeetingView::state);
    REQUIRE((stopped == 0 || stopped == model_.ranks));
    if (stopped > 0) REQUIRE(std::ranges::count(world.is_signaled, true) > 0);
    for (std::size_t rank = 0; rank < world.views.size(); ++rank) {
      REQUIRE(is_done(world, rank));
      REQUIRE(world.views[rank].meeting() == world.views[0].meeting());
    }
    ends_.insert(world.steps);
  }

  Model model_;
  std::set<World> seen_;
  std::deque<World> left_;
  std::size_t moves_ = 0;
  std::set<std::vector<int>> ends_;
  bool was_asked_ = false;
};

/// Runs ranks of a group whose every period-th step is a meeting. Returns the steps that each makes. @param is_signaled
/// whether a signal has reached a rank after so many steps.
using Signals = std::function<bool(int rank, int step)>;
std::vector<int> steps_of(comm::Communicator& communicator, int period, int steps, const Signals& is_signaled) {
  int done = 0;
  StopAgreement agreement(communicator, [&] { return is_signaled(communicator.rank(), done); });
  while (done < steps && agreement.may_begin((done + 1) % period == 0)) {
    if (++done % period == 0) communicator.barrier();
  }
  std::vector<int> all(static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const int>(&done, 1), std::span(all));
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("trainer");

TEST_CASE(
    "stop agreement: in every order of steps, signals and messages all ranks stop before one meeting, or none does") {
  for (const Model& model : {Model{2, 3, 9, 2}, Model{2, 1, 4, 2}, Model{3, 2, 4, 1}, Model{3, 1, 2, 2}}) {
    CAPTURE(model.ranks);
    CAPTURE(model.period);
    Search search(model);
    search.run();
    CHECK(search.ends().contains(std::vector<int>(static_cast<std::size_t>(model.ranks), model.steps)));
    CHECK(search.ends().size() > 1);
    CHECK(search.was_asked());
    // In the first round a rank may stop at once, and another one just before the meeting.
    if (model.period == 3) CHECK(search.ends().contains({0, 2}));
  }
}

TEST_CASE("stop agreement: without a signal nobody stops") {
  Search search({2, 2, 6, 0});
  search.run();
  CHECK(search.ends() == std::set<std::vector<int>>{{6, 6}});
}

TEST_CASE("stop agreement: real ranks stop within a round, whenever a signal comes and whoever gets it") {
  constexpr int kPeriod = 1000, kSteps = 2000;
  for (const int world : {1, 2, 3, 5, 8}) {
    for (const int victim : {0, world - 1}) {
      for (const int when : {1, 500, 998, 1500}) {
        CAPTURE(world);
        CAPTURE(when);
        const auto check = [&](comm::Communicator& communicator) {
          const auto steps = steps_of(communicator, kPeriod, kSteps,
                                      [&](int rank, int step) { return rank == victim && step >= when; });
          const int round = when / kPeriod;
          for (const int each : steps)
            if (each / kPeriod != round) throw Error("another round");
          if (steps[static_cast<std::size_t>(victim)] != when)
            throw Error("the rank that has the signal stops at once");
        };
        CHECK_NOTHROW(comm::run_local(world, {.timeout_s = 60}, check));
      }
    }
  }
}

TEST_CASE("stop agreement: a rank that waits for the others asks them to stop") {
  constexpr int kMeeting = 100;
  const auto check = [&](comm::Communicator& communicator) {
    const bool waits = communicator.rank() == 0;
    int done = 0, looks = 0;
    // The signal comes when rank 0 has arrived; rank 1 never would.
    StopAgreement agreement(communicator, [&] { return waits && done + 1 == kMeeting && ++looks > 1; });
    while (agreement.may_begin(waits && done + 1 == kMeeting)) ++done;
    if (waits && done + 1 != kMeeting) throw Error("rank 0 stops in front of the meeting");
    communicator.barrier();
  };
  CHECK_NOTHROW(comm::run_local(2, {.timeout_s = 60}, check));
}

TEST_SUITE_END();

}  // namespace dragonn::trainer

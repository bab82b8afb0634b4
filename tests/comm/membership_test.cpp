// SPDX-License-Identifier: MIT
/// Tests of the commit rule of elastic runs (docs/reliability.md), in every order of what may happen to two and three
/// members and to processes that join them.
#include "comm/elastic/membership.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/comm/membership_model.h"

namespace dragonn::comm::test {

TEST_SUITE_BEGIN("comm");

TEST_CASE("membership: whoever dies, is silent or loses a link, all survivors commit the same places") {
  for (const Model& model :
       {Model{.members = 2, .places = 3, .deaths = 1}, Model{.members = 2, .places = 2, .silences = 1, .cuts = 1},
        Model{.members = 3, .places = 2, .deaths = 1}, Model{.members = 3, .places = 1, .silences = 1},
        Model{.members = 3, .places = 1, .cuts = 1}}) {
    CAPTURE(model.members);
    CAPTURE(model.deaths);
    CAPTURE(model.silences);
    CAPTURE(model.cuts);
    Search search(model);
    search.run();
    CHECK(search.was_settled());
    CHECK(search.was_abandoned());
    std::set<int> all;
    for (int member = 0; member < model.members; ++member) all.insert(member);
    CHECK(search.ends().contains({all, {}}));
    if (model.deaths + 1 == model.members) CHECK(search.ends().contains({{0}, {}}));
  }
}

TEST_CASE("membership: of a world of two halves at most one goes on, and with too few nobody does") {
  Search two({.members = 2, .places = 2, .min_workers = 2, .silences = 1});
  two.run();
  // The half that the coordinator does not hear never ends the run alone; the other one stops with a checkpoint.
  CHECK(two.ends().contains({{}, {0}}));
  CHECK(two.ends().contains({{}, {1}}));
  for (const auto& [finished, stopped] : two.ends()) CHECK((finished.empty() || stopped.empty()));
  Search three({.members = 3, .places = 1, .min_workers = 2, .deaths = 2});
  three.run();
  CHECK(three.ends().contains({{0, 2}, {}}));
  CHECK(three.ends().contains({{}, {1}}));
}

TEST_CASE("membership: whenever a process joins, it has the state of the others, and all commit the same places") {
  for (const Model& model :
       {Model{.members = 1, .places = 3, .joiners = 1}, Model{.members = 1, .places = 2, .joiners = 2},
        Model{.members = 2, .places = 2, .joiners = 1}, Model{.members = 1, .places = 2, .deaths = 1, .joiners = 1},
        Model{.members = 1, .places = 2, .silences = 1, .joiners = 1},
        Model{.members = 1, .places = 2, .cuts = 1, .joiners = 1},
        Model{.members = 2, .places = 1, .deaths = 1, .joiners = 1, .breaks = 1}}) {
    CAPTURE(model.members);
    CAPTURE(model.joiners);
    CAPTURE(model.deaths);
    Search search(model);
    search.run();
    std::set<int> all, first;
    for (int member = 0; member < model.processes(); ++member) all.insert(member);
    for (int member = 0; member < model.members; ++member) first.insert(member);
    CHECK(search.ends().contains({all, {}}));
    CHECK(search.ends().contains({first, {}}));  // it came too late
    for (std::uint64_t place = 1; place < model.places; ++place) CHECK(search.joined_at().contains(place));
    CHECK_FALSE(search.joined_at().contains(model.places));
  }
}

TEST_CASE("membership: whenever the coordinator ends, one that has its journal leads the members to the same places") {
  for (const Model& model :
       {Model{.members = 2, .places = 2, .restarts = 1}, Model{.members = 2, .places = 2, .deaths = 1, .restarts = 1},
        Model{.members = 2, .places = 1, .silences = 1, .restarts = 1},
        Model{.members = 2, .places = 1, .cuts = 1, .restarts = 1},
        Model{.members = 2, .places = 1, .leaves = 1, .restarts = 1},
        Model{.members = 2, .places = 1, .deaths = 1, .restarts = 2}, Model{.members = 3, .places = 1, .restarts = 1},
        Model{.members = 1, .places = 2, .joiners = 1, .restarts = 1}}) {
    CAPTURE(model.members);
    CAPTURE(model.deaths);
    CAPTURE(model.joiners);
    Search search(model);
    search.run();
    std::set<int> all;
    for (int member = 0; member < model.processes(); ++member) all.insert(member);
    CHECK(search.ends().contains({all, {}}));
  }
}

TEST_CASE("membership: who gets a signal leaves and the others go on, and where too few would be left the run stops") {
  for (const Model& model :
       {Model{.members = 2, .places = 2, .leaves = 1}, Model{.members = 3, .places = 1, .leaves = 1},
        Model{.members = 2, .places = 2, .deaths = 1, .leaves = 1},
        Model{.members = 1, .places = 3, .leaves = 1, .joiners = 1}}) {
    CAPTURE(model.members);
    CAPTURE(model.deaths);
    Search search(model);
    search.run();
    std::set<int> all, stay;
    for (int member = 0; member < model.processes(); ++member) all.insert(member);
    for (int member = 1; member < model.processes(); ++member) stay.insert(member);
    CHECK(search.ends().contains({all, {}}));  // the signal came when the run was at its end
    CHECK(search.ends().contains({stay, {}}));
  }
  Search all_leave({.members = 2, .places = 2, .leaves = 2});
  all_leave.run();
  CHECK(all_leave.ends().contains({{}, {1}}));
  Membership alone(1, 1, 1);
  alone.join(0);
  alone.take_orders();
  alone.ask_to_leave(0, 7);
  CHECK(alone.take_orders() ==
        std::vector<Order>{{.kind = Order::Kind::kStop, .member = 0, .plan = alone.generation()}});
}

TEST_CASE("membership: a run that is full, ends or stops takes nobody, and who has no state never trains alone") {
  const auto dropped = [](Membership& membership, const char* why) {
    const std::vector<Order> orders = membership.take_orders();
    REQUIRE_FALSE(orders.empty());
    CHECK(orders.back().kind == Order::Kind::kDrop);
    CHECK(orders.back().why.find(why) != std::string::npos);
  };
  Membership full(1, 1, 1);
  full.join(0);
  full.take_orders();
  full.join(1);
  dropped(full, "the run has 1 workers (comm.max_workers)");
  Membership ending(2, 1, 3);
  ending.join(0);
  ending.join(1);
  ending.finish(0, 5);
  ending.take_orders();
  ending.join(2);
  dropped(ending, "at its end");
  // The last member that has the state dies while it gives it to another one.
  Membership orphan(1, 1, 2);
  orphan.join(0);
  orphan.report(0, 1, 4, "");
  orphan.join(1);
  orphan.ready(1);
  orphan.report(0, 2, 4, "");
  CHECK(orphan.generation().members == std::vector<int>{0, 1});
  orphan.take_orders();
  orphan.leave(0, "dead");
  orphan.report(1, orphan.generation().number, 4, "its group has failed");
  dropped(orphan, "nobody is left who has the state");
  CHECK(orphan.is_over());
}

TEST_CASE("membership: without a fault everybody finishes, and a run begins with those that came in time") {
  Search search({.members = 3, .places = 2});
  search.run();
  CHECK(search.ends() == std::set<std::pair<std::set<int>, std::set<int>>>{{{0, 1, 2}, {}}});
  CHECK_FALSE(search.was_abandoned());
  Membership late(2, 1, 2);
  late.join(0);
  CHECK(late.take_orders().empty());
  late.begin_with_fewer();
  CHECK(late.take_orders().size() == 1);
  late.join(1);
  const GenerationPlan& plan = late.generation();
  CHECK(late.take_orders() == std::vector<Order>{{.kind = Order::Kind::kFetch, .member = 1, .plan = plan},
                                                 {.kind = Order::Kind::kGive, .member = 0, .taker = 1, .plan = plan}});
  late.ready(1);
  CHECK(late.take_orders() ==
        std::vector<Order>{{.kind = Order::Kind::kYield, .member = 0, .plan = plan, .why = "member 1 joins"}});
}

TEST_CASE("membership: who lost a donor gets another one, and donors share those that come") {
  const auto donors = [](Membership& membership) {
    std::vector<std::pair<int, int>> given;
    for (const Order& order : membership.take_orders())
      if (order.kind == Order::Kind::kGive) given.emplace_back(order.member, order.taker);
    return given;
  };
  using Given = std::vector<std::pair<int, int>>;
  Membership run(3, 1, 9);
  for (const int id : {0, 1, 2}) run.join(id);
  for (const int id : {3, 4, 5}) run.join(id);
  CHECK(donors(run) == Given{{0, 3}, {1, 4}, {2, 5}});
  run.leave(1, "dead");
  CHECK(donors(run) == Given{{0, 4}});
  run.fetch_again(4, 1);  // it has another one by now
  CHECK(donors(run).empty());
  run.fetch_again(4, 0);
  CHECK(donors(run) == Given{{2, 4}});
  run.fetch_again(4, 4);  // that one does not come
  CHECK(donors(run) == Given{{0, 4}});
  run.ask_to_leave(0, 0);
  CHECK(donors(run) == Given{{2, 3}, {2, 4}});
}

TEST_SUITE_END();

}  // namespace dragonn::comm::test

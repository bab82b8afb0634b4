// SPDX-License-Identifier: MIT
/// Tests of members and their coordinator over the loopback interface: a member that leaves, one that is silent, one
/// that does not fit; and the lines that they send each other.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "comm/elastic/coordinator.h"
#include "comm/elastic/journal.h"
#include "comm/elastic/member.h"
#include "comm/elastic/protocol.h"
#include "comm/tcp/rendezvous.h"
#include "comm/tcp/tcp.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "tests/comm/tcp_support.h"
#include "tests/comm/timing.h"

namespace dragonn::comm::test {
namespace {

/// A run's end, as one member saw it.
struct Outcome {
  std::uint64_t place = 0;
  std::vector<std::size_t> sizes;  // of the groups in which it committed something
  std::string error;
};

/// A member that agrees with its group so many times. @param act is called before each agreement.
Outcome train(const MemberOptions& options, std::uint64_t places, const std::function<void(std::uint64_t)>& act = {}) {
  Outcome outcome;
  try {
    Member member(options);
    while (outcome.place < places) {
      const Formation formation = member.await_generation();
      try {
        run_tcp(formation.options, [&](Communicator& communicator) {
          member.watch(&communicator);
          const std::shared_ptr<void> unwatch(nullptr, [&](void*) { member.watch(nullptr); });
          while (outcome.place < places) {
            if (act) act(outcome.place);
            if (member.is_stopping()) throw std::runtime_error("stops");
            if (member.is_over()) throw CommError("the generation is over");
            try {
              communicator.barrier();
            } catch (const CommError& failure) {
              if (!member.settle(outcome.place, /*is_prepared=*/true, failure.what())) throw;
            }
            ++outcome.place;
            outcome.sizes.push_back(formation.plan.members.size());
          }
          // A group that is over may fail in its end, too.
          member.finish(outcome.place);
        });
      } catch (const CommError& failure) {
        if (outcome.place == places) break;
        member.settle(outcome.place, /*is_prepared=*/false, failure.what());
      }
    }
  } catch (const std::exception& failure) {
    outcome.error = failure.what();
  }
  return outcome;
}

using Acts = std::vector<std::function<void(std::uint64_t)>>;

/// Runs members, each in a thread. @param seconds of MemberOptions::coordinator_timeout_s.
std::vector<Outcome> run_members(const CoordinatorOptions& options, std::uint64_t places, const Acts& acts,
                                 double seconds = MemberOptions{}.coordinator_timeout_s) {
  std::vector<Outcome> outcomes(acts.size());
  std::vector<std::jthread> threads;
  for (std::size_t id = 0; id < acts.size(); ++id) {
    threads.emplace_back([&, id] {
      outcomes[id] = train({.id = static_cast<int>(id),
                            .rendezvous = options.rendezvous,
                            .timeout_s = options.timeout_s,
                            .heartbeat_timeout_s = options.heartbeat_timeout_s,
                            .coordinator_timeout_s = seconds},
                           places, acts[id]);
    });
  }
  return threads.clear(), outcomes;
}

std::jthread start_coordinator(const CoordinatorOptions& options) {
  return std::jthread([&options](const std::stop_token& stop) { RunCoordinator(options).serve(stop); });
}

/// Runs a coordinator and members.
std::vector<Outcome> run_elastic(const CoordinatorOptions& options, std::uint64_t places, const Acts& acts) {
  const std::jthread coordinator = start_coordinator(options);
  return run_members(options, places, acts);
}

struct Left : std::runtime_error {
  Left() : std::runtime_error("left") {}
};

/// Joins a run, and says no more. Returns its end of the connection.
Descriptor join_and_end(const Rendezvous& place, int id) {
  const RendezvousFile file = RendezvousFile::read(place.file).value();
  SocketResult connection = connect_to(file.addresses.front(), deadline_after(10));
  REQUIRE(connection.problem.empty());
  Hello hello = hello_of(id, kElasticSize);
  hello.run = place.run;
  hello.token = file.token;
  const std::string line = MemberLine{.kind = MemberLine::Kind::kJoin, .place = 1}.text() + "\n";
  REQUIRE(write_all(connection.socket, bytes_of(hello), deadline_after(10)).empty());
  REQUIRE(write_all(connection.socket, std::as_bytes(std::span(line)), deadline_after(10)).empty());
  ::shutdown(connection.socket.get(), SHUT_WR);
  return std::move(connection.socket);
}

CoordinatorOptions options_in(const TemporaryFolder& folder, int workers) {
  log::set_level(log::Level::kError);
  CoordinatorOptions options{.workers = workers, .timeout_s = 60, .heartbeat_timeout_s = 30};
  options.rendezvous = {.file = folder.path() / "meet"};
  return options;
}

}  // namespace

TEST_SUITE_BEGIN("comm");

TEST_CASE("elastic: a member that is gone when its generation is formed is left behind") {
  const TemporaryFolder folder;
  CoordinatorOptions options = options_in(folder, 2);
  const std::jthread coordinator = start_coordinator(options);
  Member member({.id = 0, .rendezvous = options.rendezvous, .timeout_s = 60, .heartbeat_timeout_s = 30});
  const Descriptor other = join_and_end(options.rendezvous, 1);  // read at once: it joins, and has ended
  const Formation first = member.await_generation();
  CHECK(first.plan.members == std::vector<int>{0, 1});
  member.settle(0, /*is_prepared=*/false, "the other one is not there");
  CHECK(member.await_generation().plan.members == std::vector<int>{0});
  member.finish(0);
}

TEST_CASE("elastic: when a member leaves the others go on from the same place, in a smaller group") {
  for (const int leaver : {0, 2}) {
    CAPTURE(leaver);
    const TemporaryFolder folder;
    Acts acts(3);
    acts[static_cast<std::size_t>(leaver)] = [](std::uint64_t place) {
      if (place == 5) throw Left();
    };
    const std::vector<Outcome> outcomes = run_elastic(options_in(folder, 3), 9, acts);
    for (int id = 0; id < 3; ++id) {
      CAPTURE(id);
      const Outcome& outcome = outcomes[static_cast<std::size_t>(id)];
      CHECK(outcome.error == (id == leaver ? "left" : ""));
      if (id == leaver) continue;
      CHECK(outcome.place == 9);
      CHECK(outcome.sizes == std::vector<std::size_t>{3, 3, 3, 3, 3, 2, 2, 2, 2});
    }
  }
}

TEST_CASE("elastic: a coordinator that is started again with its journal takes the members up where they are") {
  for (const bool loses_member : {false, true}) {
    CAPTURE(loses_member);
    const TemporaryFolder folder;
    CoordinatorOptions options = options_in(folder, 3);
    options.heartbeat_timeout_s = short_deadline(2);
    options.journal = folder.path() / "journal";
    std::optional<std::jthread> coordinator = start_coordinator(options);
    Acts acts(3);
    acts[0] = [&](std::uint64_t place) {
      if (place == 3) coordinator.reset();
      if (place == (loses_member ? 4 : 6)) coordinator = start_coordinator(options);
    };
    // Of what happens without a coordinator the next one hears.
    acts[2] = [&](std::uint64_t place) {
      if (place == 4 && loses_member) throw Left();
    };
    const std::vector<Outcome> outcomes = run_members(options, 9, acts, 60);
    coordinator->join();
    for (int id = 0; id < 3; ++id) {
      CAPTURE(id);
      const Outcome& outcome = outcomes[static_cast<std::size_t>(id)];
      const bool leaves = id == 2 && loses_member;
      CHECK(outcome.error == (leaves ? "left" : ""));
      if (leaves) continue;
      CHECK(outcome.sizes == (loses_member ? std::vector<std::size_t>{3, 3, 3, 3, 2, 2, 2, 2, 2}
                                           : std::vector<std::size_t>{3, 3, 3, 3, 3, 3, 3, 3, 3}));
    }
    CHECK_FALSE(std::filesystem::exists(options.journal));  // the run is over
  }
}

TEST_CASE("elastic: without a coordinator that has the journal members train on, and then stop") {
  const TemporaryFolder folder;
  CoordinatorOptions options = options_in(folder, 2);
  options.heartbeat_timeout_s = short_deadline(2);
  std::optional<std::jthread> coordinator = start_coordinator(options);
  Acts acts(2);
  acts[0] = [&](std::uint64_t place) {
    if (place == 2) coordinator.reset();
    if (place == 3) coordinator = start_coordinator(options);  // which does not know them, without a journal
  };
  const std::vector<Outcome> outcomes = run_members(options, 1000000, acts, short_deadline(1));
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome.error);
    CHECK(outcome.place > 3);  // they did not wait
    CHECK((outcome.error == "stops" || outcome.error.find("is no member any more") != std::string::npos));
  }
}

TEST_CASE("elastic: of two coordinators with one journal the last one decides, and other files are refused") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "journal";
  JournalEntry entry{.token = 1, .next_id = 3, .config = 4};
  entry.last = {.plan = {.number = 2, .place = 5, .members = {0, 2}, .first = 3},
                .why = "member 1: its connection has ended",
                .since = {{0, 0}, {2, 0}},
                .reached = 5};
  entry.lost = {{1, ResidualMass{4, -0.25, 1.5}}};
  Journal first(path), second(path);
  CHECK_FALSE(first.read());
  CHECK_THROWS_AS(Journal(folder.path() / "none" / "journal"), ConfigError);
  first.write(entry);
  const auto left = second.read();
  REQUIRE(left);
  CHECK(left->last == entry.last);
  CHECK(left->lost == entry.lost);
  second.take_over(*left);
  CHECK_THROWS_AS(first.write(entry), CommError);
  first.remove();
  CHECK(second.read() == second.read());
  CHECK(std::filesystem::exists(path));
  second.remove();
  CHECK_FALSE(std::filesystem::exists(path));
  // A coordinator whose journal somebody has removed does not bring the run back.
  CHECK_THROWS_AS(second.write(entry), CommError);
  for (const std::string text : {"", "hello\n", "journal 1 2 3\n"}) {
    CAPTURE(text);
    write_file_atomically(path, std::string_view(text));
    CHECK_THROWS_AS(second.read(), DataError);
    CoordinatorOptions options = options_in(folder, 1);
    options.journal = path;
    CHECK_THROWS_AS(RunCoordinator{options}, DataError);
  }
  for (const char* bad : {"journal 1 2 3 4 2 5 3 0 5 0:0,2:0", "journal 1 2 3 4 0 5 3 0 5 - 0:0,2:0 w",
                          "journal 1 2 3 4 2 5 3 0 5 - 2:0,0:0 w", "journal 1 2 3 4 2 5 3 0 5 - 0:0,3:0 w",
                          "journal 1 2 3 4 2 5 3 0 4 - 0:0,2:0 w", "journal 1 2 3 4 2 5 3 0 5 -  w"})
    CHECK_FALSE(JournalEntry::parse(bad).has_value());
  CHECK(JournalEntry::parse("journal 1 2 3 4 2 5 3 0 5 - 0:0,2:0 w"));
}

TEST_CASE("elastic: too few that come in time, and a process of another number, learn why") {
  const TemporaryFolder folder;
  CoordinatorOptions options = options_in(folder, 3);
  options.timeout_s = short_deadline(2);
  options.min_workers = 2;
  const std::vector<Outcome> fewer = run_elastic(options, 2, Acts(2));
  for (const Outcome& outcome : fewer) CHECK(outcome.sizes == std::vector<std::size_t>{2, 2});
  options.min_workers = 3;
  const std::vector<Outcome> few = run_elastic(options, 2, Acts(2));
  for (const Outcome& outcome : few) CHECK(outcome.error.find("2 of 3 workers came") != std::string::npos);
  options.workers = options.min_workers = 2;
  const std::vector<Outcome> more = run_elastic(options, 2, Acts(3));
  // It comes before the run has begun, while it is on, or behind its end.
  CAPTURE(more[2].error);
  CHECK(more[2].sizes.empty());
  CHECK_FALSE(more[2].error.empty());
}

TEST_CASE("elastic: lines are read as they are written, and others are refused") {
  using Kind = CoordinatorLine::Kind;
  CoordinatorLine form;
  form.kind = Kind::kForm;
  form.plan = {.number = 3, .place = 17, .members = {0, 2}, .first = 3, .stops = true};
  form.lost = {{1, ResidualMass{16, -0.25, 1e-30}}, {4}};
  form.run = 12345;
  form.member = 2;
  form.doors = {*parse_address("10.0.0.1:4000"), *parse_address("[fe80::1]:4001")};
  form.why = "member 1: its connection has ended";
  CHECK(CoordinatorLine::parse(form.text()) == form);
  form.lost = {};
  CHECK(CoordinatorLine::parse(form.text()) == form);
  MemberLine beat;
  beat.mass = ResidualMass{3, 0.1, 2.5};
  CHECK(MemberLine::parse(beat.text()) == beat);
  CHECK(MemberLine::parse("beat") == MemberLine{});
  CHECK_FALSE(MemberLine::parse("beat 3 nan 1"));
  CHECK_FALSE(MemberLine::parse("beat 3"));
  CoordinatorLine give;
  give.kind = Kind::kGive;
  give.run = 7;
  give.member = 4;
  give.doors = {*parse_address("10.0.0.1:4000")};
  CHECK(CoordinatorLine::parse(give.text()) == give);
  CoordinatorLine fetch;
  fetch.kind = Kind::kFetch;
  fetch.run = 7;
  fetch.member = 4;
  CHECK(CoordinatorLine::parse(fetch.text()) == fetch);
  CoordinatorLine end;
  end.kind = Kind::kEnd;
  end.plan.number = 3;
  end.why = "silent";
  CHECK(CoordinatorLine::parse(end.text()) == end);
  end.kind = Kind::kYield;
  CHECK(CoordinatorLine::parse(end.text()) == end);
  CoordinatorLine stop;
  stop.kind = Kind::kStop;
  CHECK(CoordinatorLine::parse(stop.text()) == stop);
  for (const MemberLine& line :
       {MemberLine{MemberLine::Kind::kJoin, 0, 4000, "", ~0ULL}, MemberLine{},
        MemberLine{MemberLine::Kind::kReturn, 3, 4000, "", 17}, MemberLine{MemberLine::Kind::kReport, 2, 9, "a b"},
        MemberLine{MemberLine::Kind::kFinish, 0, 7}})
    CHECK(MemberLine::parse(line.text()) == line);
  for (const char* bad : {"", "hello", "join", "join x", "join 1", "join 1 2 3", "report 1", "beat 1", "finish -1"})
    CHECK_FALSE(MemberLine::parse(bad));
  for (const char* bad :
       {"", "form", "form 1 2 0 3", "form 1 2 0 3 0 x", "form 1 2 0 3 0 0@", "form 1 2 2 3 0 0@10.0.0.1:1 w",
        "form 1 2 0 3 1 0@10.0.0.1:1 w", "form 1 2 0 3 0 1@10.0.0.1:1,0@10.0.0.1:2 w",
        "form 1 2 0 3 0 99999999999@10.0.0.1:1 w", "end", "yield"})
    CHECK_FALSE(CoordinatorLine::parse(bad));
}

TEST_SUITE_END();

}  // namespace dragonn::comm::test

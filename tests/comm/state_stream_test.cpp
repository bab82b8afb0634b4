// SPDX-License-Identifier: MIT
/// Tests of streams of state to a process that is going to join an elastic run, over the loopback interface.
#include "comm/elastic/state_stream.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "comm/elastic/coordinator.h"
#include "comm/elastic/member.h"
#include "core/log.h"
#include "tests/comm/tcp_support.h"

namespace dragonn::comm::test {
namespace {

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed) & 0xff);
  return bytes;
}

StreamBytes message(std::size_t size, unsigned seed) {
  return std::make_shared<const std::vector<std::byte>>(pattern(size, seed));
}

/// A run of one member, and a process that joins it.
class TwoMembers {
 public:
  TwoMembers() {
    log::set_level(log::Level::kError);
    options_ = {.workers = 1, .max_workers = 2, .timeout_s = 60, .heartbeat_timeout_s = 30};
    options_.rendezvous = {.file = folder_.path() / "meet"};
    coordinator_ = std::jthread([this](const std::stop_token& stop) { RunCoordinator(options_).serve(stop); });
    member_ = std::make_unique<Member>(member_options());
    REQUIRE_FALSE(member_->await_fetch());
    first_ = member_->await_generation();
    member_->on_taker([this](const Taker& taker) {
      const std::lock_guard lock(mutex_);
      takers_.push_back(taker);
      changed_.notify_all();
    });
    joiner_ = std::make_unique<Member>(member_options());
    const auto run = joiner_->await_fetch();
    REQUIRE(run);
    run_ = *run;
  }
  ~TwoMembers() {
    member_->on_taker({});
    member_.reset();
    joiner_.reset();
  }

  Member& member() { return *member_; }
  Member& joiner() { return *joiner_; }
  std::uint64_t run() const { return run_; }
  /// Waits for the order that is the `count`-th, and returns its taker.
  Taker taker(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return takers_.size() >= count; });
    return takers_[count - 1];
  }

 private:
  MemberOptions member_options() const {
    return {.rendezvous = options_.rendezvous, .timeout_s = 60, .heartbeat_timeout_s = 30};
  }

  TemporaryFolder folder_;
  CoordinatorOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Taker> takers_;
  std::jthread coordinator_;
  std::unique_ptr<Member> member_, joiner_;
  Formation first_;
  std::uint64_t run_ = 0;
};

/// The messages that a receiver has taken, in order.
struct Taken {
  StateReceiver::Take function() {
    return [this](StreamKind kind, int donor, std::span<const std::byte> bytes) {
      CHECK(donor == 0);
      messages.emplace_back(kind, std::vector<std::byte>(bytes.begin(), bytes.end()));
    };
  }
  std::vector<std::pair<StreamKind, std::vector<std::byte>>> messages;
};

}  // namespace

TEST_SUITE_BEGIN("comm");

TEST_CASE("state stream: the state and all updates come whole and in order, and then the process joins") {
  TwoMembers two;
  Taken taken;
  StateReceiver receiver(two.joiner(), two.run(), taken.function());
  const Taker taker = two.taker(1);
  CHECK(taker.id == 1);
  CHECK(taker.run == two.run());
  StateSender sender(taker, two.member().options(), 1);
  sender.send(StreamKind::kState, message(3 * StateSender::kPartBytes + 5, 1));
  for (unsigned update = 0; update < 40; ++update)
    sender.send(StreamKind::kUpdate, message(10000 * (update % 3), update));
  CHECK(receiver.wait_for_updates(40));
  // The coordinator hears that the joiner is ready, and the generation yields.
  while (!two.member().is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  sender.send(StreamKind::kUpdate, message(7, 99));
  CHECK(receiver.wait_for_updates(41));
  CHECK_FALSE(two.member().settle(3, /*is_prepared=*/false, ""));
  CHECK(two.member().await_generation().plan.members == std::vector<int>{0, 1});
  const Formation formation = two.joiner().await_generation();
  CHECK(formation.plan.place == 3);
  CHECK(two.joiner().id() == 1);
  receiver.stop();
  std::erase_if(taken.messages, [](const auto& one) { return one.first == StreamKind::kPresent; });
  REQUIRE(taken.messages.size() == 42);
  CHECK(taken.messages[0] == std::pair(StreamKind::kState, pattern(3 * StateSender::kPartBytes + 5, 1)));
  for (unsigned update = 0; update < 40; ++update)
    CHECK(taken.messages[1 + update] == std::pair(StreamKind::kUpdate, pattern(10000 * (update % 3), update)));
  CHECK(taken.messages[41].second == pattern(7, 99));
  two.member().finish(4);
  two.joiner().finish(4);
}

TEST_CASE("state stream: where a donor is lost, or its state cannot be taken, another stream begins") {
  TwoMembers two;
  Taken taken;
  bool is_refused = true;
  StateReceiver receiver(two.joiner(), two.run(), [&](StreamKind kind, int donor, std::span<const std::byte> bytes) {
    if (kind == StreamKind::kState && std::exchange(is_refused, false)) throw DataError("damaged");
    taken.function()(kind, donor, bytes);
  });
  // The first ends in the middle of the state, the second brings one that is refused.
  auto first = std::make_unique<StateSender>(two.taker(1), two.member().options(), 1e-9);
  first->send(StreamKind::kState, message(2 * StateSender::kPartBytes, 1));
  while (first->waiting_bytes() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  first.reset();
  StateSender second(two.taker(2), two.member().options(), 1);
  second.send(StreamKind::kState, message(100, 2));
  StateSender third(two.taker(3), two.member().options(), 1);
  third.send(StreamKind::kState, message(100, 3));
  third.send(StreamKind::kUpdate, message(100, 4));
  while (!two.member().is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(receiver.wait_for_updates(1));
  CHECK_FALSE(third.has_failed());
  CHECK(taken.messages[0].second == pattern(100, 3));
}

TEST_CASE("state stream: one that falls behind drops its updates, says so, and the process joins") {
  TwoMembers two;
  Taken taken;
  StateSender sender(two.taker(1), two.member().options(), 1);
  sender.send(StreamKind::kState, message(500, 4));
  for (int update = 0; update < 3; ++update) sender.send(StreamKind::kUpdate, message(1000, 5));
  CHECK(sender.waiting_bytes() == 3500);
  sender.fall_behind();
  CHECK(sender.waiting_bytes() == 500);
  StateReceiver receiver(two.joiner(), two.run(), taken.function());  // the sender has waited for it
  while (!two.member().is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  receiver.stop();
  REQUIRE(taken.messages.size() == 2);  // and not that it has all
  CHECK(taken.messages[0].first == StreamKind::kState);
  CHECK(taken.messages[1].first == StreamKind::kBehind);
}

TEST_SUITE_END();

}  // namespace dragonn::comm::test

// SPDX-License-Identifier: MIT
#include <array>
#include <thread>
#include <vector>

#include "tests/comm/cases.h"
#include "tests/comm/support.h"

namespace dragonn::comm::test {
namespace {

constexpr std::uint64_t kLargest = ~std::uint64_t{0};

template <class Body>
void for_each_peer(const Communicator& communicator, const Body& body) {
  for (int peer = 0; peer < communicator.size(); ++peer)
    if (peer != communicator.rank()) body(peer);
}

/// The i-th notification of a rank in these cases.
Notification numbered(int source, std::uint64_t i) {
  return {.kind = i, .value = kLargest - static_cast<std::uint64_t>(source), .source = source};
}

void notify_all(Communicator& communicator, std::uint64_t i) {
  for_each_peer(communicator, [&](int peer) { communicator.notify(peer, numbered(communicator.rank(), i)); });
}

void keep_order(Communicator& communicator) {
  constexpr std::uint64_t kEach = 30;
  for (std::uint64_t i = 0; i < kEach; ++i) notify_all(communicator, i);
  // From one rank after the other, whatever the order in which they come.
  for_each_peer(communicator, [&](int peer) {
    for (std::uint64_t i = 0; i < kEach; ++i)
      expect(communicator.wait_for_notification(peer) == numbered(peer, i), "a pair's notifications keep their order");
  });
  expect(!communicator.poll_notification(), "no notification comes twice");
  communicator.barrier();  // nobody sends those of the next case before
}

void poll_any(Communicator& communicator) {
  constexpr std::uint64_t kEach = 1000;
  for (std::uint64_t i = 0; i < kEach; ++i) notify_all(communicator, i);
  std::vector<std::uint64_t> came(unsigned_size(communicator));
  for (std::size_t left = kEach * (came.size() - 1); left > 0;) {
    const std::optional<Notification> one = communicator.poll_notification();
    if (!one) {
      std::this_thread::yield();
      continue;
    }
    expect(*one == numbered(one->source, came[static_cast<std::size_t>(one->source)]++),
           "many notifications come in the order of their sender");
    --left;
  }
  expect(!communicator.poll_notification(), "there are no more");
  communicator.barrier();
}

void poll_one_source(Communicator& communicator) {
  const int last = communicator.size() - 1;
  if (last < 2) return;
  if (communicator.rank() != 0) communicator.notify(0, numbered(communicator.rank(), 7));
  if (communicator.rank() != 0) return;
  std::optional<Notification> one;
  while (!(one = communicator.poll_notification(last))) {
  }
  expect(*one == numbered(last, 7), "a poll takes the notification of the source that it names");
  for (int source = 1; source < last; ++source)
    expect(communicator.wait_for_notification(source) == numbered(source, 7), "the others stay for later");
}

void are_outside_of_collectives(Communicator& communicator) {
  const int last = communicator.size() - 1;
  if (last == 0) return;
  for (std::uint64_t round = 0; round < 5; ++round) {
    // All but rank 0 are in the barrier, or on their way to it, when it gets their notifications.
    if (communicator.rank() != 0) communicator.notify(0, numbered(communicator.rank(), round));
    if (communicator.rank() == 0)
      for_each_peer(communicator, [&](int peer) {
        expect(communicator.wait_for_notification(peer) == numbered(peer, round), "they come while others are in it");
      });
    communicator.barrier();
    // Between the parts of an operation, and ahead of a sum whose messages they pass or are passed by.
    std::vector<float> values(20'000, 1.0f);
    const std::vector<std::byte> sent(100'000, std::byte{3});
    std::vector<std::byte> received(sent.size());
    const int next = (communicator.rank() + 1) % communicator.size();
    const int previous = (communicator.rank() + last) % communicator.size();
    Request receive = communicator.irecv(previous, 1, std::span<std::byte>(received));
    notify_all(communicator, 10 + round);
    Request sending = communicator.isend(next, 1, std::span<const std::byte>(sent));
    notify_all(communicator, 20 + round);
    communicator.wait(receive);
    communicator.wait(sending);
    communicator.allreduce_sum(View<float>(std::span<float>(values)));
    expect(values == std::vector<float>(values.size(), static_cast<float>(communicator.size())), "the sum is right");
    expect(received == sent, "the message is right");
    for_each_peer(communicator, [&](int peer) {
      for (const std::uint64_t i : {10 + round, 20 + round})
        expect(communicator.wait_for_notification(peer) == numbered(peer, i), "they come after it");
    });
  }
}

void pass_messages(Communicator& communicator) {
  if (communicator.size() == 1) return;
  const int next = (communicator.rank() + 1) % communicator.size();
  const int previous = (communicator.rank() + communicator.size() - 1) % communicator.size();
  const std::array<std::byte, 8> message{std::byte{1}};
  Request first = communicator.isend(next, 1, std::span<const std::byte>(message));
  Request second = communicator.isend(next, 2, std::span<const std::byte>(message));
  communicator.notify(next, numbered(communicator.rank(), 1));
  expect(communicator.wait_for_notification(previous) == numbered(previous, 1),
         "a notification does not wait for messages that nobody has received");
  std::array<std::byte, 8> buffer{};
  communicator.recv_exactly(previous, 2, std::span<std::byte>(buffer));
  communicator.recv_exactly(previous, 1, std::span<std::byte>(buffer));
  communicator.wait(first);
  communicator.wait(second);
}

void are_counted(Communicator& communicator) {
  const TrafficMeter headers(communicator, Phase::kHeader), exchange(communicator, Phase::kExchange);
  {
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    notify_all(communicator, 1);
    for_each_peer(communicator, [&](int peer) { communicator.wait_for_notification(peer); });
  }
  const std::uint64_t peers = unsigned_size(communicator) - 1;
  const Traffic expected{kNotificationBytes * peers, kNotificationBytes * peers, peers, peers};
  expect(headers.moved() == expected && exchange.moved() == Traffic{}, "notifications count as headers in any phase");
}

constexpr std::array kCases{
    Case{"notifications of a pair keep their order", keep_order},
    Case{"a poll takes from any rank", poll_any},
    Case{"a poll takes from the rank that it names", poll_one_source},
    Case{"notifications come outside of the order of collectives", are_outside_of_collectives},
    Case{"notifications do not wait for messages in the receiver's slots", pass_messages},
    Case{"notifications count as headers", are_counted},
    // The last one: what it leaves unread is still there when the group ends.
    Case{"nobody has to take notifications",
         [](Communicator& communicator) {
           for (std::uint64_t i = 0; i < 100; ++i) notify_all(communicator, i);
           communicator.barrier();  // a rank that has ended cannot be notified
         }},
};

}  // namespace

std::span<const Case> notification_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test

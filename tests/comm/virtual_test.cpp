// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "comm/network_model.h"
#include "comm/virtual/virtual_worker.h"
#include "core/error.h"
#include "tests/comm/cases.h"
#include "tests/comm/support.h"
#include "tests/comm/virtual_cluster.h"
#include "tests/support/allocation_counter.h"

namespace dragonn::comm::test {
namespace {

double latest(const std::vector<double>& times) {
  return *std::ranges::max_element(times);
}

void use_processor(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("in-port: messages use the gaps that earlier ones left, in pieces if need be") {
    InPort port;
    CHECK(port.reserve(4, 2) == 6);
    CHECK(port.reserve(0, 3) == 3);    // before it
    CHECK(port.reserve(2, 3) == 8);    // [3, 4] and [6, 8]
    CHECK(port.reserve(5, 0) == 8);    // an empty message waits for its turn
    CHECK(port.reserve(0, 1) == 9);    // nothing left before
    CHECK(port.reserve(20, 1) == 21);  // an idle port
  }

  TEST_CASE("in-port: the last of several messages arrives at one time in every order") {
    const std::vector<std::pair<double, double>> messages{{0, 3}, {1, 1}, {10, 2}, {2, 4}, {9, 1}};
    std::vector<std::size_t> order{0, 1, 2, 3, 4};
    do {
      InPort port;
      double done = 0;
      for (const std::size_t i : order) done = std::max(done, port.reserve(messages[i].first, messages[i].second));
      CHECK(done == 12);
    } while (std::ranges::next_permutation(order).found);
  }

  TEST_CASE("in-port: what lies behind many pieces is never served twice") {
    InPort port;
    for (int i = 0; i < 1000; ++i) CHECK(port.reserve(2 * i, 1) == 2 * i + 1);
    CHECK(port.reserve(0, 1) >= 1);
    CHECK(port.reserve(1998.5, 1) == 2000);
  }

  TEST_CASE("virtual: a message takes its latency and its bytes, and leaves the sender before it arrives") {
    const std::vector<double> times = times_after(2, [](Communicator& c) {
      if (c.rank() == 0) return send(c, 1, 5000);
      receive(c, 0, 5000);
    });
    CHECK(times[0] == about(transfer(5000)));
    CHECK(times[1] == about(kLatency + transfer(5000)));
  }

  TEST_CASE("virtual: a message that is already there costs its receiver nothing") {
    const std::vector<double> times = times_after(3, [](Communicator& c) {
      if (c.rank() == 0) return send(c, 2, 10);
      if (c.rank() == 1) return send(c, 2, 5000);
      receive(c, 1, 5000);
      receive(c, 0, 10);
    });
    CHECK(times[2] == about(kLatency + transfer(5010)));
  }

  TEST_CASE("virtual: a rank sends and receives at the same time for the price of one") {
    const std::vector<double> times = times_after(2, [](Communicator& c) {
      const std::vector<std::byte> outgoing(4000);
      std::vector<std::byte> incoming(4000);
      c.send_recv(1 - c.rank(), std::span<const std::byte>(outgoing), 1 - c.rank(), std::span<std::byte>(incoming), 1);
    });
    for (const double time : times) CHECK(time == about(kLatency + transfer(4000)));
  }

  TEST_CASE("virtual: messages of many senders queue at the receiver") {
    for (const int world : {2, 3, 8, 33}) {
      const std::vector<double> times = times_after(world, [](Communicator& c) {
        if (c.rank() > 0) return send(c, 0, 1000);
        for (int source = 1; source < c.size(); ++source) receive(c, source, 1000);
      });
      CHECK(times[0] == about(kLatency + (world - 1) * transfer(1000)));
      CHECK(times[1] == about(transfer(1000)));
    }
  }

  TEST_CASE("virtual: messages that are started together queue at the sender") {
    const std::vector<double> times = times_after(3, [](Communicator& c) {
      const std::vector<std::byte> message(1000);
      if (c.rank() > 0) return receive(c, 0, 1000);
      Request first = c.isend(1, 1, std::span<const std::byte>(message));
      Request second = c.isend(2, 1, std::span<const std::byte>(message));
      expect(c.now() == 0, "isend returns at once");
      c.wait(first);
      expect(c.now() == transfer(1000), "a send ends when the port is done with it");
      c.wait(second);
    });
    CHECK(times[0] == about(transfer(2000)));
    CHECK(times[1] == about(kLatency + transfer(1000)));
    CHECK(times[2] == about(kLatency + transfer(2000)));
  }

  TEST_CASE("virtual: dense allreduces take what their formulas say") {
    for (const int world : {2, 3, 4, 8, 16}) {
      const double p = world;
      const double words = 4.0 * 240;  // elements that every one of these numbers of ranks divides
      const double volume = transfer(2 * words * 4 * (p - 1) / p);
      const auto allreduce = [&](DenseAlgorithm algorithm) {
        return times_after(world, [&](Communicator& c) {
          std::vector<float> values(static_cast<std::size_t>(words));
          c.allreduce_sum(View<float>(std::span(values)), algorithm);
        });
      };
      for (const double time : allreduce(DenseAlgorithm::kRing)) CHECK(time == about(2 * (p - 1) * kLatency + volume));
      if (world == 3) continue;
      const double rounds = std::log2(p);
      for (const double time : allreduce(DenseAlgorithm::kRabenseifner)) {
        CHECK(time == about(2 * rounds * kLatency + volume));
      }
    }
  }

  TEST_CASE("virtual: an allgather takes ceil(log2 P) rounds, one of large blocks a ring's except at powers of two") {
    for (const int world : {2, 3, 4, 5, 7, 8, 16, 32}) {
      for (const std::size_t size : {Communicator::kSmallBlock, 2 * Communicator::kSmallBlock}) {
        const bool ring = size > Communicator::kSmallBlock && !std::has_single_bit(static_cast<unsigned>(world));
        const double rounds = ring ? world - 1 : std::ceil(std::log2(world));
        const std::vector<double> times = times_after(world, [size](Communicator& c) {
          const std::vector<std::byte> mine(size);
          std::vector<std::byte> all(size * unsigned_size(c));
          c.allgather(std::span<const std::byte>(mine), std::span<std::byte>(all));
        });
        const double volume = static_cast<double>(size) * (world - 1);
        for (const double time : times) CHECK(time == about(rounds * kLatency + transfer(volume)));
      }
    }
  }

  TEST_CASE("virtual: reductions of counters take ceil(log2 P) rounds") {
    for (const int world : {2, 3, 5, 8, 16}) {
      const double rounds = std::ceil(std::log2(world));
      const auto sum = [](Communicator& c) {
        std::vector<double> values(3);
        c.allreduce_sum(std::span<double>(values));
      };
      for (const double time : times_after(world, sum)) {
        CHECK(time == about(rounds * kLatency + transfer(24.0 * (world - 1))));
      }
      const auto maximum = [](Communicator& c) {
        std::vector<std::uint64_t> values(3);
        c.allreduce_max(std::span<std::uint64_t>(values));
      };
      for (const double time : times_after(world, maximum)) CHECK(time == about(rounds * (kLatency + transfer(24))));
    }
  }

  TEST_CASE("virtual: a broadcast and a barrier take log P rounds") {
    for (const int world : {2, 4, 8, 32}) {
      const double rounds = std::log2(world);
      CHECK(latest(times_after(world, [](Communicator& c) {
              std::vector<std::byte> bytes(3000);
              c.broadcast(0, std::span<std::byte>(bytes));
            })) == about(rounds * (kLatency + transfer(3000))));
      CHECK(latest(times_after(world, [](Communicator& c) { c.barrier(); })) == about(rounds * kLatency));
    }
  }

  TEST_CASE("virtual: ping-pong finds the network that is modelled") {
    run_local(3, {.network = kNetwork, .compute = Compute::kZero}, [](Communicator& c) {
      const NetworkModel found = measure_network(c);
      // Least squares of sizes over five orders of magnitude.
      expect(std::abs(found.latency_seconds / kLatency - 1) < 1e-9, "the latency");
      expect(std::abs(found.bytes_per_second / kNetwork.bytes_per_second - 1) < 1e-9, "the bandwidth");
    });
  }

  TEST_CASE("virtual: every run has the same times, however the threads run") {
    const auto program = [](Communicator& c) {
      const std::size_t own = 64 * (unsigned_rank(c) + 1);
      std::vector<float> values(1000);
      for (int round = 0; round < 5; ++round) {
        for (int to = 0; to < c.size(); ++to) {
          if (to != c.rank()) send(c, to, own);
          if (to == c.rank()) std::this_thread::yield();
        }
        for (int from = c.size() - 1; from >= 0; --from) {
          if (from != c.rank()) receive(c, from, 64 * (static_cast<std::size_t>(from) + 1));
        }
        c.allreduce_sum(View<float>(std::span(values)));
      }
    };
    const std::vector<double> first = times_after(7, program);
    for (int run = 0; run < 20; ++run) CHECK(times_after(7, program) == first);
  }

  TEST_CASE("virtual: own work counts when it is measured, sleeping and the simulator's work do not") {
    constexpr double kWork = 0.05, kSleep = 0.25;
    std::vector<double> times(2);
    run_local(2, {.timeout_s = 60, .network = kNetwork}, [&](Communicator& c) {
      const auto start = std::chrono::steady_clock::now();
      const double begin = c.now();
      use_processor(kWork);
      const double before = c.now();
      const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
      std::this_thread::sleep_for(std::chrono::duration<double>(kSleep));
      if (c.rank() == 0) send(c, 1, 0);
      if (c.rank() == 1) receive(c, 0, 0);
      times[unsigned_rank(c)] = c.now() - before;
      // The two clocks may go differently fast by a little.
      expect(before > begin && before - begin <= wall.count() * 1.01, "work is processor time: no more than wall time");
    });
    CHECK(times[0] < kSleep / 2);  // the rest is work: for a message of no bytes
  }

  TEST_CASE("virtual: while the clock is paused nothing takes time, and nobody waits") {
    const std::vector<double> times = times_after(3, [](Communicator& c) {
      c.barrier();
      const double before = c.now();
      std::vector<float> values(1000);
      {
        const ClockPause pause(c.clock());
        c.allreduce_sum(View<float>(std::span(values)));
        use_processor(1e-3);
      }
      expect(c.now() == before, "the clock stood still");
      c.barrier();
    });
    for (const double time : times) CHECK(time == about(4 * kLatency));
  }

  TEST_CASE("virtual: a line of time beside the communicator's is joined by the later of both") {
    run_local(1, {.network = kNetwork}, [](Communicator& c) {
      const std::unique_ptr<Clock> forked = c.fork_clock();
      forked->advance_to({5, 4});
      expect(forked->now() == 5, "a forked clock stands where it was put until a thread takes it over");
      std::jthread([&] {
        forked->attach_to_this_thread();
        use_processor(0.01);
      }).join();
      c.clock().advance_to({7, 3});
      c.clock().advance_to(forked->moment());
      expect(c.now() >= 7 && c.now() < 8, "the later of both");
      const double ideal = c.clock().moment().ideal;
      expect(ideal > 4 && ideal < 5, "the later of both, had no message taken any time");
    });
  }

  TEST_CASE("virtual: the ideal time counts work and the waits for it, and no message") {
    constexpr double kWork = 0.02, kTransfer = 1000 / kNetwork.bytes_per_second;
    std::vector<Moment> moments(3);
    run_local(3, {.timeout_s = 60, .network = kNetwork, .compute = Compute::kZero}, [&](Communicator& c) {
      if (c.rank() == 0) c.clock().advance_to({kWork, kWork});  // works
      send(c, (c.rank() + 1) % 3, 1000);
      receive(c, (c.rank() + 2) % 3, 1000);
      moments[unsigned_rank(c)] = c.clock().moment();
    });
    CHECK(moments[0].seconds == about(kWork + kTransfer));  // the message for it was there before
    CHECK(moments[0].ideal == kWork);
    CHECK(moments[1].seconds == about(kWork + kLatency + kTransfer));
    CHECK(moments[1].ideal == kWork);  // waited for rank 0's work
    CHECK(moments[2].seconds == about(kLatency + kTransfer));
    CHECK(moments[2].ideal == 0);  // waited for rank 1, which sent before it waited
  }

  TEST_CASE("virtual: where nothing but messages takes time the ideal time is none") {
    run_local(4, {.timeout_s = 60, .network = kNetwork, .compute = Compute::kZero}, [](Communicator& c) {
      std::vector<float> values(1000);
      c.allreduce_sum(View<float>(std::span(values)));
      expect(c.now() > 0 && c.clock().moment().ideal == 0, "messages alone");
    });
  }

  TEST_CASE("virtual: times do not change what is sent") {
    const auto bytes_of = [](const LocalOptions& options) {
      std::uint64_t bytes = 0;
      run_local(5, options, [&](Communicator& c) {
        std::vector<float> values(100, 1.5f);
        c.allreduce_sum(View<float>(std::span(values)));
        expect(values == std::vector<float>(100, 7.5f), "the sum");
        if (c.rank() == 0) bytes = c.traffic()[Phase::kControl].bytes_sent;
      });
      return bytes;
    };
    CHECK(bytes_of({}) == bytes_of({.network = kNetwork}));
  }

  TEST_CASE("virtual: after two rounds nothing allocates") {
    const testing::AllocationCounter counter;
    constexpr int kWorld = 4;
    std::vector<std::size_t> made(kWorld);
    run_local(kWorld, {.network = kNetwork}, [&](Communicator& c) {
      std::vector<float> values(1000);
      std::size_t warm = 0;
      for (int round = 0; round < 100; ++round) {
        if (round == 2) warm = counter.count_of_thread();
        c.allreduce_sum(View<float>(std::span(values)));
        c.barrier();
      }
      made[unsigned_rank(c)] = counter.count_of_thread() - warm;
    });
    CHECK(made == std::vector<std::size_t>(kWorld, 0));
  }

  TEST_CASE("virtual: a network that cannot be is refused") {
    const auto nothing = [](Communicator&) {};
    CHECK_THROWS_WITH_AS(run_local(2, {.network = NetworkModel{-1, 1}}, nothing),
                         "a network with a latency of -1 s: expected 0 or more, finite", ConfigError);
    CHECK_THROWS_WITH_AS(run_local(2, {.network = NetworkModel{1, 0}}, nothing),
                         "a network that carries 0 bytes per second: expected more than 0", ConfigError);
  }
}

}  // namespace dragonn::comm::test

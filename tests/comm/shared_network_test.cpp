// SPDX-License-Identifier: MIT
// Virtual clusters whose nodes have several workers, or unlike links.
#include "comm/virtual/shared_network.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "comm/network_model.h"
#include "core/error.h"
#include "tests/comm/support.h"
#include "tests/comm/virtual_cluster.h"

namespace dragonn::comm::test {
namespace {

constexpr NetworkModel kInside{.latency_seconds = 1e-5, .bytes_per_second = 1e8};

NodeLinks nodes_of(std::vector<int> workers) {
  std::vector<NetworkModel> inside(workers.size(), kInside);
  return {.workers = std::move(workers), .inside = std::move(inside)};
}

/// Three nodes of one worker, in which node 0 sends faster than any pair carries.
NodeLinks with_pairs() {
  NodeLinks links = nodes_of({1, 1, 1});
  links.up = {2e6, 1e6, 1e6};
  links.down = {1e6, 1e6, 1e6};
  links.pairs.assign(9, kNetwork);
  links.pairs[1] = {.latency_seconds = 5e-3, .bytes_per_second = 1e5};  // from 0 to 1
  return links;
}

/// Everybody sends to everybody, after pauses of wall time that differ from call to call, and reduces.
void program(Communicator& c) {
  static std::atomic<unsigned> calls = 0;
  std::vector<float> values(500);
  for (int round = 0; round < 3; ++round) {
    if ((++calls * 2654435761U >> 28) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<std::byte> message(64 * (unsigned_rank(c) + 1));
    std::vector<Request> sends;
    for (int to = 0; to < c.size(); ++to) {
      if (to != c.rank()) sends.push_back(c.isend(to, 1, std::span<const std::byte>(message)));
    }
    for (int from = c.size() - 1; from >= 0; --from) {
      if (from != c.rank()) receive(c, from, 64 * (static_cast<std::size_t>(from) + 1));
    }
    for (Request& request : sends) c.wait(request);
    c.allreduce_sum(View<float>(std::span(values)));
    {
      const ClockPause pause(c.clock());
      c.barrier();
    }
  }
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("shared network: workers of a node queue at its link, out and in") {
    const std::vector<double> out = times_after(4, nodes_of({2, 2}), [](Communicator& c) {
      if (c.rank() < 2) return send(c, c.rank() + 2, 1000);
      receive(c, c.rank() - 2, 1000);
    });
    CHECK(out[0] == about(1e-3));
    CHECK(out[1] == about(2e-3));
    CHECK(out[2] == about(2e-3));
    CHECK(out[3] == about(3e-3));
    const std::vector<double> in = times_after(4, nodes_of({1, 1, 2}), [](Communicator& c) {
      if (c.rank() < 2) return send(c, c.rank() + 2, 1000);
      receive(c, c.rank() - 2, 1000);
    });
    CHECK(in[1] == about(1e-3));
    CHECK(in[2] == about(2e-3));
    CHECK(in[3] == about(3e-3));
  }

  TEST_CASE("shared network: messages inside a node use the workers' ports, and leave the link alone") {
    const std::vector<double> times = times_after(6, nodes_of({4, 2}), [](Communicator& c) {
      if (c.rank() == 0) send(c, 1, 1000);
      if (c.rank() == 1) receive(c, 0, 1000);
      if (c.rank() == 2) send(c, 3, 1000);
      if (c.rank() == 3) receive(c, 2, 1000);
      if (c.rank() == 3) send(c, 4, 1000);
      if (c.rank() == 4) receive(c, 3, 1000);
    });
    CHECK(times[1] == about(2e-5));
    CHECK(times[3] == about(2e-5 + 1e-3));
    CHECK(times[4] == about(2e-5 + 2e-3));
  }

  TEST_CASE("shared network: of unlike links the slower one decides") {
    const NodeLinks links{.up = {1e5, 1e6, 1e6}, .down = {1e6, 1e6, 2e5}};
    const std::vector<double> times = times_after(3, links, [](Communicator& c) {
      if (c.rank() == 0) send(c, 1, 1000);
      if (c.rank() == 1) receive(c, 0, 1000);
      if (c.rank() == 1) send(c, 2, 1000);
      if (c.rank() == 2) receive(c, 1, 1000);
    });
    CHECK(times[0] == about(10e-3));
    CHECK(times[1] == about(11e-3 + 1e-3));
    CHECK(times[2] == about(11e-3 + 1e-3 + 5e-3));
  }

  TEST_CASE("shared network: a pair has its own latency and rate, in one direction") {
    const std::vector<double> times = times_after(3, with_pairs(), [](Communicator& c) {
      if (c.rank() == 0) send(c, 1, 1000);
      if (c.rank() == 1) receive(c, 0, 1000);
      if (c.rank() == 1) send(c, 0, 1000);
      if (c.rank() == 0) receive(c, 1, 1000);
    });
    CHECK(times[0] == about(10e-3 + 5e-3 + 1e-3 + 1e-3));
    CHECK(times[2] == 0);
  }

  TEST_CASE("shared network: messages of a slow pair queue behind each other, and hold up no other pair") {
    const std::vector<double> times = times_after(3, with_pairs(), [](Communicator& c) {
      if (c.rank() == 0) {
        for (int i = 0; i < 2; ++i) send(c, 1, 1000);
        send(c, 2, 1000);
      }
      if (c.rank() == 1) receive(c, 0, 1000);
      if (c.rank() == 1) receive(c, 0, 1000);
      if (c.rank() == 2) receive(c, 0, 1000);
    });
    CHECK(times[0] == about(1.5e-3));
    CHECK(times[1] == about(20e-3 + 5e-3));
    CHECK(times[2] == about(1e-3 + 1e-3 + 1e-3));  // out behind two others, by a pair that is slower than node 0 sends
  }

  TEST_CASE("shared network: pairs that limit nothing leave every time as it is, to the last bit") {
    NodeLinks links = nodes_of({2, 3});
    links.up = {1e5, 3e5};
    links.down = {7e5, 2e5};
    const std::vector<double> without = times_after(5, links, program);
    links.pairs.assign(4, {kNetwork.latency_seconds, 3e5});
    CHECK(times_after(5, links, program) == without);
    links.pairs.assign(4, {kNetwork.latency_seconds, 2e5});
    CHECK(times_after(5, links, program) != without);
  }

  TEST_CASE("shared network: where every worker is a node times are those of a network of equal workers") {
    const auto allreduce = [](Communicator& c) {
      std::vector<float> values(1000);
      c.allreduce_sum(View<float>(std::span(values)));
    };
    for (const int world : {2, 3, 8}) {
      const auto ranks = static_cast<std::size_t>(world);
      const std::vector<double> shared = times_after(world, nodes_of(std::vector<int>(ranks, 1)), allreduce);
      const std::vector<double> own = times_after(world, {}, allreduce);
      for (std::size_t rank = 0; rank < ranks; ++rank) CHECK(shared[rank] == about(own[rank]));
    }
  }

  TEST_CASE("shared network: every run has the same times, however the threads run") {
    for (const std::vector<int>& workers : {std::vector<int>{2, 3}, {3, 1}, {2, 2, 2}}) {
      int world = 0;
      for (const int size : workers) world += size;
      const std::vector<double> first = times_after(world, nodes_of(workers), program);
      for (int run = 0; run < 10; ++run) CHECK(times_after(world, nodes_of(workers), program) == first);
    }
  }

  TEST_CASE("shared network: a sender may be ahead by many messages") {
    const std::vector<double> times = times_after(2, nodes_of({1, 1}), [](Communicator& c) {
      for (int i = 0; i < 20 && c.rank() == 0; ++i) send(c, 1, 100);
      if (c.rank() == 0) return receive(c, 1, 10);
      send(c, 0, 10);
      for (int i = 0; i < 20; ++i) receive(c, 0, 100);
    });
    CHECK(times[1] == about(1e-3 + 2e-3));
  }

  TEST_CASE("shared network: a worker that fails ends the others' turns, one that has left is not waited for") {
    CHECK_THROWS_AS(times_after(3, nodes_of({3}),
                                [](Communicator& c) {
                                  if (c.rank() == 1) throw Error("it fails");
                                  for (;;) c.barrier();
                                }),
                    Error);
    const std::vector<double> times = times_after(3, nodes_of({3}), [](Communicator& c) {
      if (c.rank() == 0) return;
      if (c.rank() == 1) return send(c, 2, 0);
      receive(c, 1, 0);
    });
    CHECK(times[2] == about(1e-5));
  }

  TEST_CASE("shared network: nodes that cannot be are refused") {
    const auto nothing = [](Communicator&) {};
    CHECK_THROWS_WITH_AS(times_after(3, nodes_of({2, 2}), nothing),
                         "nodes with 2, 2 workers: expected 3 in all, and at least one on each node", ConfigError);
    CHECK_THROWS_WITH_AS(times_after(2, {.up = {1.0}}, nothing),
                         "1 rates out of nodes, of which there are 2: expected one for each", ConfigError);
    CHECK_THROWS_WITH_AS(times_after(2, {.pairs = {kNetwork}}, nothing),
                         "1 pairs of 2 nodes: expected one from each to each, 4 in all", ConfigError);
    const NetworkModel dead{.latency_seconds = 0, .bytes_per_second = 0};
    CHECK_THROWS_WITH_AS(
        times_after(2, {.pairs = {dead, kNetwork, dead, dead}}, nothing),
        "0 s latency and 0 bytes per second from node 1 to 0: expected at least 0 s, finite, and more than "
        "0 bytes per second",
        ConfigError);
    CHECK_THROWS_WITH_AS(times_after(2, {.workers = {1, 1}}, nothing),
                         "0 networks inside nodes, of which there are 2: expected one for each", ConfigError);
    CHECK_THROWS_WITH_AS(times_after(1, {.down = {0.0}}, nothing),
                         "0 bytes per second into a node: expected more than 0", ConfigError);
  }
}

}  // namespace dragonn::comm::test

// SPDX-License-Identifier: MIT
#include "comm/tcp/tcp.h"

#include <chrono>
#include <span>
#include <thread>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "tests/comm/cases.h"
#include "tests/comm/tcp_support.h"

namespace dragonn::comm::test {
namespace {

void run_cases(int world, std::span<const Case> cases) {
  CAPTURE(world);
  CHECK_NOTHROW(run_tcp_threads(world, 60, [&](Communicator& c) {
    for (const Case& claim : cases) {
      c.set_label(claim.claim);
      claim.body(c);
    }
  }));
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("tcp: every claim about messages and collectives holds") {
    for (const int world : kWorlds) {
      for (const auto& cases : {message_cases(), allreduce_cases(), collective_cases(), sparse_cases(), agreed_cases(),
                                region_cases(), gtopk_cases(), oktopk_cases()}) {
        run_cases(world, cases);
      }
      // Of each method, step and code: with more ranks the local ones run them.
      if (world <= 5) run_cases(world, conservation_cases());
    }
  }

  TEST_CASE("tcp: the bits are those of local ranks") {
    for (const int world : kWorlds) {
      CAPTURE(world);
      std::vector<std::uint64_t> local(static_cast<std::size_t>(world));
      std::vector<std::uint64_t> tcp(local);
      run_local(world, {}, [&](Communicator& c) { local[unsigned_rank(c)] = digest(c) ^ sparse_digest(c); });
      run_tcp_threads(world, 60, [&](Communicator& c) {
        expect(c.backend() == "tcp" && c.size() == world && !c.clock().is_virtual(), "what a rank knows");
        tcp[unsigned_rank(c)] = digest(c) ^ sparse_digest(c);
      });
      CHECK(tcp == local);
    }
  }

  TEST_CASE("tcp: two ranks that send large messages to each other first do not wait for each other") {
    constexpr std::size_t kBytes = 16 << 20;  // more than two sockets hold
    run_tcp_threads(2, 60, [](Communicator& c) {
      std::vector<std::byte> sent(kBytes, std::byte(c.rank() + 1)), received(kBytes);
      for (int round = 0; round < 2; ++round) {
        c.send(1 - c.rank(), 1, std::span<const std::byte>(sent));
        c.recv(1 - c.rank(), 1, std::span<std::byte>(received));
        expect(received == std::vector<std::byte>(kBytes, std::byte(2 - c.rank())), "all bytes came");
      }
    });
  }

  TEST_CASE("tcp: a sender that is ahead waits, and its messages keep their order and tags") {
    constexpr int kMessages = 200;
    run_tcp_threads(2, 60, [](Communicator& c) {
      std::vector<int> values(50'000);  // 200 kB: some of them fill a socket
      const auto bytes = Communicator::as_writable_bytes(std::span<int>(values));
      for (int i = 0; i < kMessages; ++i) {
        if (c.rank() == 0) {
          values.front() = values.back() = i;
          c.send(1, i % 2, Communicator::as_bytes(std::span<const int>(values)));
        } else {
          if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
          c.recv(0, (i + 1) % 2, bytes);  // the second of each pair first
          expect(values.front() == (i ^ 1) && values.back() == (i ^ 1), "tags select among messages");
        }
      }
    });
  }

  TEST_CASE("tcp: messages sent before a rank ends still arrive") {
    int received = 0;
    run_tcp_threads(2, 60, [&](Communicator& c) {
      const int sent = 5;
      if (c.rank() == 0) return c.send(1, 0, Communicator::as_bytes(std::span<const int>(&sent, 1)));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      c.recv(0, 0, Communicator::as_writable_bytes(std::span<int>(&received, 1)));
    });
    CHECK(received == 5);
  }

  TEST_CASE("tcp: a rank can be aborted while it is asked whether its wait is interrupted") {
    CHECK_THROWS_AS(run_tcp_threads(2, 60,
                                    [](Communicator& c) {
                                      if (c.rank() == 1) return c.barrier();
                                      c.wait_for_notification(1, [&] {
                                        std::jthread([&] { c.abort("its run is over"); }).join();
                                        return false;
                                      });
                                    }),
                    CommError);
  }
}

}  // namespace dragonn::comm::test

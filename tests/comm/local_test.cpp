// SPDX-License-Identifier: MIT
#include "comm/local/local.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>

#include "tests/comm/cases.h"
#include "tests/comm/support.h"
#include "tests/comm/timing.h"

namespace dragonn::comm::test {
namespace {

void run_cases(std::span<const Case> cases, std::span<const int> worlds = kManyWorlds) {
  for (const Case& claim : cases) {
    for (const int world : worlds) {
      CAPTURE(claim.claim);
      CAPTURE(world);
      CHECK_NOTHROW(run_local(world, {.timeout_s = 60}, claim.body));
    }
  }
}

/// The errors of all ranks of a group that must fail, by rank; empty where a rank ended well.
std::vector<std::string> errors_of(int world, double timeout_s, const std::function<void(Communicator&)>& fn) {
  std::vector<std::string> errors(static_cast<std::size_t>(world));
  const auto record = [&](Communicator& communicator) {
    try {
      fn(communicator);
    } catch (const std::exception& error) {
      errors[unsigned_rank(communicator)] = error.what();
      throw;
    }
  };
  CHECK_THROWS(run_local(world, {.timeout_s = timeout_s}, record));
  return errors;
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("local: messages keep order, tags and counts") {
    run_cases(message_cases());
  }
  TEST_CASE("local: allreduce is exact and moves what the formulas say") {
    run_cases(allreduce_cases());
  }
  TEST_CASE("local: collectives are exact and move what the formulas say") {
    run_cases(collective_cases());
  }
  TEST_CASE("local: sparse collectives are exact and move what the formulas say") {
    run_cases(sparse_cases());
    run_cases(agreed_cases());
    run_cases(region_cases());
    run_cases(gtopk_cases());
    run_cases(oktopk_cases());
  }
  TEST_CASE("local: every sparse collective conserves mass and tells of NaN") {
    run_cases(conservation_cases(), kWorlds);
  }

  TEST_CASE("local: the same inputs give the same bits, whatever the timing") {
    for (const int world : kManyWorlds) {
      std::vector<std::uint64_t> first(static_cast<std::size_t>(world));
      std::vector<std::uint64_t> second(static_cast<std::size_t>(world));
      run_local(world, {}, [&](Communicator& c) { first[unsigned_rank(c)] = digest(c) ^ sparse_digest(c); });
      run_local(world, {}, [&](Communicator& c) {
        std::this_thread::sleep_for(std::chrono::milliseconds((c.rank() * 3) % 5));
        second[unsigned_rank(c)] = digest(c) ^ sparse_digest(c);
      });
      CHECK(first == std::vector<std::uint64_t>(first.size(), first[0]));
      CHECK(first == second);
    }
  }

  TEST_CASE("local: every rank runs once and knows its place") {
    std::vector<int> seen(5);
    run_local(5, {}, [&](Communicator& c) {
      expect(c.size() == 5 && c.backend() == "local" && c.now() >= 0, "what a rank knows");
      ++seen[unsigned_rank(c)];
    });
    CHECK(seen == std::vector<int>(5, 1));
    CHECK_THROWS_AS(run_local(0, {}, [](Communicator&) {}), ConfigError);
  }

  TEST_CASE("local: a rank that throws ends all with its name, label and reason") {
    const auto body = [](Communicator& c) {
      c.set_label("step 12, bucket 3");
      c.barrier();
      if (c.rank() == 2) throw DataError("the disk is gone");
      for (;;) c.barrier();
    };
    for (const int world : {3, 4, 5}) {
      const std::vector<std::string> errors = errors_of(world, 60, body);
      CHECK(errors[2] == "the disk is gone");
      for (std::size_t rank = 0; rank < errors.size(); ++rank) {
        if (rank == 2) continue;
        CAPTURE(errors[rank]);
        CHECK(contains(errors[rank], "rank 2 failed ('step 12, bucket 3'): the disk is gone"));
        CHECK(contains(errors[rank], "rank " + std::to_string(rank) + ", 'step 12, bucket 3', in barrier"));
      }
      CHECK_THROWS_AS(run_local(world, {}, body), DataError);
    }
  }

  TEST_CASE("local: abort tells the peers and is the group's error") {
    CHECK_THROWS_WITH_AS(run_local(2, {},
                                   [](Communicator& c) {
                                     if (c.rank() == 1) return c.abort("enough");
                                     c.barrier();
                                   }),
                         "rank 1 failed: enough", CommError);
  }

  TEST_CASE("local: a rank that never sends is a deadline error when the timeout has passed") {
    std::atomic<bool> there = false, done = false;
    const auto start = std::chrono::steady_clock::now();
    const std::vector<std::string> errors = errors_of(2, 0.2, [&](Communicator& c) {
      c.set_label(c.rank() == 0 ? "step 8" : "step 7");
      if (c.rank() == 1) {
        there = true;
        return await([&] { return done.load(); });
      }
      await([&] { return there.load(); });
      std::byte byte{};
      try {
        c.recv(1, 0, std::span<std::byte>(&byte, 1));
      } catch (const CommError&) {
        done = true;
        throw;
      }
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CHECK(errors[0] ==
          "rank 0, 'step 8', receiving from rank 1: nothing for 0.2 s (comm.timeout_s); rank 1 is at "
          "'step 7'");
    CHECK(seconds >= 0.2);  // and it ends while the other rank still hangs
  }

  TEST_CASE("local: a rank that never receives is a deadline error too") {
    std::atomic<bool> done = false;
    const std::vector<std::string> errors = errors_of(2, 0.2, [&](Communicator& c) {
      if (c.rank() == 1) {
        while (!done) std::this_thread::yield();
        return;
      }
      try {
        for (;;) c.send(1, 0, {});
      } catch (const CommError&) {
        done = true;
        throw;
      }
    });
    CHECK(contains(errors[0], "rank 0, sending to rank 1: nothing for 0.2 s"));
  }

  TEST_CASE("local: waiting for a rank that has ended is an error at once") {
    const std::vector<std::string> errors = errors_of(2, 600, [](Communicator& c) {
      if (c.rank() == 0) c.barrier();
    });
    CHECK(contains(errors[0], "rank 0, in barrier, "));  // sending or receiving, as the threads happen to run
    CHECK(contains(errors[0], " rank 1: rank 1 has ended"));
  }

  TEST_CASE("local: messages sent before a rank ends still arrive") {
    int received = 0;
    run_local(2, {}, [&](Communicator& c) {
      const int sent = 5;
      if (c.rank() == 0) return c.send(1, 0, Communicator::as_bytes(std::span<const int>(&sent, 1)));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      c.recv(0, 0, Communicator::as_writable_bytes(std::span<int>(&received, 1)));
    });
    CHECK(received == 5);
  }

  TEST_CASE("local: ranks that disagree on the operation or the size are told") {
    const std::vector<std::string> operations = errors_of(2, 0.2, [](Communicator& c) {
      c.set_label("step 1");
      int value = 0;
      if (c.rank() == 0) return c.barrier();
      c.broadcast_value(0, value);
    });
    CHECK(contains(operations[0] + operations[1], "in broadcast"));
    CHECK(contains(operations[0] + operations[1], "in barrier"));

    const std::vector<std::string> sizes = errors_of(2, 60, [](Communicator& c) {
      std::vector<float> values(c.rank() == 0 ? 10 : 12);
      c.allreduce_sum(View<float>(std::span<float>(values)));
    });
    CHECK(contains(sizes[0] + sizes[1], "the ranks disagree on a size"));

    const std::vector<std::string> buffer = errors_of(2, 60, [](Communicator& c) {
      std::vector<std::byte> bytes(8);
      if (c.rank() == 0) return c.send(1, 0, std::span<const std::byte>(bytes));
      c.recv(0, 0, std::span<std::byte>(bytes).first(4));
    });
    CHECK(buffer[1] == "rank 1, receiving from rank 0: a message of 8 bytes does not fit the 4 bytes for it");
  }

  TEST_CASE("local: a peer is another rank of the group") {
    CHECK_THROWS_AS(run_local(1, {}, [](Communicator& c) { c.send(0, 0, {}); }), Error);
    CHECK_THROWS_AS(run_local(1, {}, [](Communicator& c) { c.send(1, 0, {}); }), Error);
    CHECK_THROWS_AS(run_local(1, {}, [](Communicator& c) { c.send(-1, 0, {}); }), Error);
  }

  TEST_CASE("dense_algorithm knows its names and lists them") {
    CHECK(dense_algorithm("ring") == DenseAlgorithm::kRing);
    CHECK(dense_algorithm("rabenseifner") == DenseAlgorithm::kRabenseifner);
    CHECK(dense_algorithm("native") == DenseAlgorithm::kNative);
    CHECK_THROWS_WITH_AS(dense_algorithm("rnig"),
                         "unknown dense algorithm 'rnig'; did you mean 'ring'? valid: native, rabenseifner, ring",
                         ConfigError);
  }
}

}  // namespace dragonn::comm::test

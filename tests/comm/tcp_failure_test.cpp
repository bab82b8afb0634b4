// SPDX-License-Identifier: MIT
/// Tests of the end of a TCP group when a rank fails, leaves or is late.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "tests/comm/cases.h"
#include "tests/comm/tcp_support.h"
#include "tests/comm/timing.h"

namespace dragonn::comm::test {
namespace {}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("tcp: a rank that throws ends all with its name, label and reason") {
    for (const int world : {2, 3, 4, 5}) {
      for (const int victim : {0, world - 1}) {
        const std::vector<std::string> errors = tcp_errors(world, 60, [&](Communicator& c) {
          c.set_label("step 12, bucket 3");
          c.barrier();
          if (c.rank() == victim) throw DataError("the disk is gone");
          for (;;) c.barrier();
        });
        for (int rank = 0; rank < world; ++rank) {
          const std::string& error = errors[static_cast<std::size_t>(rank)];
          CAPTURE(error);
          if (rank == victim) {
            CHECK(error == "the disk is gone");
            continue;
          }
          CHECK(contains(error, "rank " + std::to_string(victim) + " failed ('step 12, bucket 3'): the disk is gone"));
          CHECK(contains(error, "rank " + std::to_string(rank) + ", 'step 12, bucket 3', in barrier"));
        }
      }
    }
  }

  TEST_CASE("tcp: an error that all ranks have had is each one's own") {
    const std::vector<std::string> errors = tcp_errors(4, 60, [](Communicator& c) {
      c.barrier();
      std::this_thread::sleep_for(std::chrono::milliseconds(20 * c.rank()));
      throw ConfigError("no such thing");
    });
    CHECK(errors == std::vector<std::string>(4, "no such thing"));
  }

  TEST_CASE("tcp: a rank that fails after the others are done fails them too") {
    const std::vector<std::string> errors = tcp_errors(3, 60, [](Communicator& c) {
      if (c.rank() == 1) throw DataError("the disk is gone");
    });
    CHECK(errors[1] == "the disk is gone");
    CHECK(contains(errors[0], "rank 0, shutting down with rank 1: rank 1 failed: the disk is gone"));
    CHECK(contains(errors[2], "rank 1 failed: the disk is gone"));
  }

  TEST_CASE("tcp: abort, from any thread, tells the peers") {
    const std::vector<std::string> errors = tcp_errors(3, 60, [](Communicator& c) {
      if (c.rank() == 1) {
        std::jthread other([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          c.abort("enough");
        });
        c.barrier();
      }
      c.barrier();
      std::byte byte{};
      c.recv((c.rank() + 1) % 3, 1, std::span<std::byte>(&byte, 1));
    });
    for (const std::string& error : errors) CHECK(contains(error, "rank 1 failed: enough"));
  }

  TEST_CASE("tcp: a rank that never sends is a deadline error when the timeout has passed, and is named") {
    const double timeout_s = short_deadline(3);
    std::atomic<int> told = 0;
    std::atomic<bool> first_waits = false;
    const auto start = std::chrono::steady_clock::now();
    const std::vector<std::string> errors = tcp_errors(3, timeout_s, [&](Communicator& c) {
      c.set_label("step 8");
      c.barrier();
      if (c.rank() == 2) return await([&] { return told == 2; });
      if (c.rank() == 0) await([&] { return first_waits.load(); });
      first_waits = true;
      std::byte byte{};
      try {
        c.recv(c.rank() + 1, 0, std::span<std::byte>(&byte, 1));  // 0 waits for 1, which waits for 2
      } catch (const CommError&) {
        ++told;
        throw;
      }
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CHECK(contains(errors[1],
                   fmt::format("rank 1, 'step 8', receiving from rank 2: nothing for {} s (comm.timeout_s); rank 2 "
                               "does not answer",
                               timeout_s)));
    CHECK(contains(errors[0], "rank 2 does not answer"));
    CHECK(seconds >= timeout_s);  // and it ends while rank 2 still hangs
  }

  TEST_CASE("tcp: ranks that wait for each other say what for") {
    const std::vector<std::string> errors = tcp_errors(2, short_deadline(2), [](Communicator& c) {
      c.set_label(c.rank() == 0 ? "step 1" : "step 2");
      std::byte byte{};
      c.recv(1 - c.rank(), 7, std::span<std::byte>(&byte, 1));
    });
    CHECK((contains(errors[0], "rank 1 is at 'step 2', waiting for rank 0") ||
           contains(errors[1], "rank 0 is at 'step 1', waiting for rank 1")));
  }

  TEST_CASE("tcp: a rank that never receives is a deadline error too") {
    const double timeout_s = short_deadline(2);
    std::atomic<bool> done = false;
    const std::vector<std::string> errors = tcp_errors(2, timeout_s, [&](Communicator& c) {
      if (c.rank() == 1) return await([&] { return done.load(); });
      const std::vector<std::byte> message(1 << 20);
      try {
        for (;;) c.send(1, 0, std::span<const std::byte>(message));
      } catch (const CommError&) {
        done = true;
        throw;
      }
    });
    CHECK(contains(errors[0], fmt::format("rank 0, sending to rank 1: nothing for {} s", timeout_s)));
  }

  TEST_CASE("tcp: waiting for a rank that has ended is an error at once") {
    const std::vector<std::string> errors = tcp_errors(2, 600, [](Communicator& c) {
      if (c.rank() == 0) c.barrier();
    });
    CHECK(contains(errors[0], "rank 0, in barrier, "));
    CHECK(contains(errors[0], " rank 1: rank 1 has ended"));
    CHECK(contains(errors[1], "rank 1 has ended"));
  }

  TEST_CASE("tcp: a message that was half sent when its sender failed is whole, or none") {
    constexpr std::size_t kBytes = 16 << 20;  // more than two sockets hold
    std::atomic<bool> sending = false, disturbed = false;
    const auto receive_late = [&](Communicator& c) {
      await([&] { return disturbed.load(); });
      std::vector<std::byte> buffer(kBytes);
      c.recv(0, 1, std::span<std::byte>(buffer));
      expect(buffer == std::vector<std::byte>(kBytes, std::byte{7}), "all bytes came");
      c.recv(0, 2, std::span<std::byte>(buffer));
    };
    // The sender learns of the failure while it waits.
    const std::vector<std::string> told = tcp_errors(3, 60, [&](Communicator& c) {
      if (c.rank() == 1) return receive_late(c);
      if (c.rank() == 2) {
        await([&] { return sending.load(); });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // mostly the sender waits by then
        c.abort("enough");
        disturbed = true;
        return;
      }
      const std::vector<std::byte> message(kBytes, std::byte{7});
      sending = true;
      c.send(1, 1, std::span<const std::byte>(message));
    });
    for (const std::string& error : told) CHECK(contains(error, "rank 2 failed: enough"));
    // It fails itself, and its message is gone.
    disturbed = false;
    const std::vector<std::string> own = tcp_errors(2, 60, [&](Communicator& c) {
      if (c.rank() == 1) return receive_late(c);
      const std::vector<std::byte> message(kBytes, std::byte{7});
      c.isend(1, 1, std::span<const std::byte>(message));
      disturbed = true;
      throw DataError("the disk is gone");
    });
    CHECK(own[0] == "the disk is gone");
    CHECK(contains(own[1], "rank 1, receiving from rank 0: process "));
    CHECK(contains(own[1], "of rank 0 has ended: its connection was closed"));
  }

  TEST_CASE("tcp: ranks that disagree on a size are told") {
    const std::vector<std::string> sizes = tcp_errors(2, 60, [](Communicator& c) {
      std::vector<float> values(c.rank() == 0 ? 10 : 12);
      c.allreduce_sum(View<float>(std::span<float>(values)));
    });
    CHECK(contains(sizes[0] + sizes[1], "the ranks disagree on a size"));

    for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 20}) {
      const std::vector<std::string> errors = tcp_errors(2, 60, [&](Communicator& c) {
        const std::vector<std::byte> message(bytes);
        std::array<std::byte, 4> buffer{};
        if (c.rank() == 0) return c.send(1, 0, std::span<const std::byte>(message));
        c.recv(0, 0, std::span<std::byte>(buffer));
      });
      CHECK(errors[1] ==
            fmt::format("rank 1, receiving from rank 0: a message of {} bytes does not fit the 4 bytes for it", bytes));
    }
  }
}

}  // namespace dragonn::comm::test

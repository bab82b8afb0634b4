// SPDX-License-Identifier: MIT
/// Tests of notifications over every backend that needs no launcher, and of their failures.
#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <sys/socket.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "comm/local/local.h"
#include "comm/tcp/frame.h"
#include "comm/tcp/socket.h"
#include "tests/comm/cases.h"
#include "tests/comm/support.h"
#include "tests/comm/tcp_support.h"
#include "tests/comm/timing.h"

namespace dragonn::comm::test {
namespace {

using Body = std::function<void(Communicator&)>;

/// A backend, and how it runs a group that must fail: returns the errors by rank.
struct Backend {
  const char* name;
  std::vector<std::string> (*errors)(int world, double timeout_s, const Body& body);
};

std::vector<std::string> local_errors(int world, double timeout_s, const Body& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(world));
  CHECK_THROWS(run_local(world, {.timeout_s = timeout_s}, [&](Communicator& communicator) {
    try {
      body(communicator);
    } catch (const std::exception& error) {
      errors[unsigned_rank(communicator)] = error.what();
      throw;
    }
  }));
  return errors;
}

constexpr std::array kBackends{Backend{"local", local_errors}, Backend{"tcp", tcp_errors}};

/// Rank 0 waits for a notification from the last rank, which does something else.
std::vector<std::string> errors_of(const Backend& backend, int world, double timeout_s, const Body& last) {
  return backend.errors(world, timeout_s, [&](Communicator& communicator) {
    communicator.set_label("step 7");
    if (communicator.rank() == communicator.size() - 1) return last(communicator);
    if (communicator.rank() == 0) communicator.wait_for_notification(communicator.size() - 1);
  });
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("notifications: every claim holds over local, virtual and tcp ranks") {
    for (const int world : {1, 2, 3, 5}) {
      CAPTURE(world);
      const Body all = [](Communicator& communicator) {
        for (const Case& claim : notification_cases()) {
          communicator.set_label(claim.claim);
          claim.body(communicator);
        }
      };
      CHECK_NOTHROW(run_local(world, {.timeout_s = 60}, all));
      CHECK_NOTHROW(
          run_local(world, {.timeout_s = 60, .network = NetworkModel{1e-3, 1e6}, .compute = Compute::kZero}, all));
      CHECK_NOTHROW(run_tcp_threads(world, 60, all));
    }
  }

  TEST_CASE("notifications: a rank that throws, or has ended, ends those that wait for its notification") {
    for (const Backend& backend : kBackends) {
      for (const int world : {2, 3, 5}) {
        CAPTURE(backend.name);
        CAPTURE(world);
        const int last = world - 1;
        const std::string waiting = fmt::format("rank 0, 'step 7', in notification, receiving from rank {}: ", last);
        const auto thrown =
            errors_of(backend, world, 60, [](Communicator&) { throw std::runtime_error("the disk is gone"); });
        CHECK(thrown[0] == waiting + fmt::format("rank {} failed ('step 7'): the disk is gone", last));
        CHECK(errors_of(backend, world, 60, [](Communicator&) {})[0] ==
              waiting + fmt::format("rank {} has ended", last));
      }
    }
  }

  TEST_CASE("notifications: one that came before its sender ended is still taken") {
    for (const Backend& backend : kBackends) {
      CAPTURE(backend.name);
      bool was_taken = false;
      const auto errors = backend.errors(2, 60, [&](Communicator& communicator) {
        if (communicator.rank() == 1) return communicator.notify(0, {.kind = 1});
        was_taken = communicator.wait_for_notification(1)->kind == 1;
        communicator.wait_for_notification(1);
      });
      CHECK(was_taken);
      CHECK(contains(errors[0], "rank 1 has ended"));
    }
  }

  TEST_CASE("notifications: a poll, and a notification to a rank, say that the group has failed") {
    for (const Backend& backend : kBackends) {
      for (const bool polls : {true, false}) {
        CAPTURE(backend.name);
        CAPTURE(polls);
        const auto errors = backend.errors(3, 60, [&](Communicator& communicator) {
          if (communicator.rank() == 2) return communicator.abort("enough");
          for (;;) {
            if (polls) communicator.poll_notification();
            if (!polls) communicator.notify(1 - communicator.rank(), {});
            communicator.poll_notification(1 - communicator.rank());
          }
        });
        CHECK(contains(errors[0], "rank 2 failed: enough"));
        CHECK(contains(errors[1], "rank 2 failed: enough"));
      }
    }
  }

  TEST_CASE("notifications: a rank that sends none is a deadline error that names it") {
    for (const Backend& backend : kBackends) {
      CAPTURE(backend.name);
      std::atomic<bool> told = false;
      const double timeout_s = short_deadline(2);
      const auto errors = backend.errors(2, timeout_s, [&](Communicator& communicator) {
        communicator.barrier();
        if (communicator.rank() == 1) return await([&] { return told.load(); });
        try {
          communicator.wait_for_notification(1);
        } catch (const CommError&) {
          told = true;
          throw;
        }
      });
      CHECK(contains(errors[0], fmt::format("rank 0, in notification, receiving from rank 1: nothing for {} s "
                                            "(comm.timeout_s)",
                                            timeout_s)));
    }
  }

  TEST_CASE("notifications: a wait can be interrupted, and goes on later") {
    const Body body = [](Communicator& communicator) {
      if (communicator.rank() == 1) {
        communicator.barrier();
        return communicator.notify(0, {.kind = 3});
      }
      int asked = 0;
      expect(!communicator.wait_for_notification(1, [&] { return ++asked > 2; }), "nothing has come");
      communicator.barrier();
      expect(communicator.wait_for_notification(1, [] { return false; })->kind == 3, "it has come");
    };
    CHECK_NOTHROW(run_local(2, {.timeout_s = 60}, body));
    CHECK_NOTHROW(run_tcp_threads(2, 60, body));
  }

  TEST_CASE("notifications: a peer must be another rank") {
    const std::array<void (*)(Communicator&, int), 3> uses{
        [](Communicator& communicator, int peer) { communicator.notify(peer, {}); },
        [](Communicator& communicator, int peer) { communicator.poll_notification(peer); },
        [](Communicator& communicator, int peer) { communicator.wait_for_notification(peer); }};
    for (const auto use : uses) {
      for (const int peer : {0, 2, -2}) {
        const auto errors = local_errors(2, 60, [&](Communicator& communicator) {
          if (communicator.rank() == 0) use(communicator, peer);
        });
        CHECK(contains(errors[0], "a peer is another rank"));
      }
    }
  }

  TEST_CASE("notifications: tcp refuses a frame of another length, and takes those that come in pieces") {
    for (const std::uint64_t bytes : {0, 8, 15, 17, 4096}) {
      CAPTURE(bytes);
      std::array<int, 2> ends{};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
      const Descriptor ours(ends[0]), theirs(ends[1]);
      Outgoing out(theirs.get());
      out.notify({.kind = 5, .value = 6});
      out.write();
      std::vector<std::byte> frame(sizeof(FrameHeader) + bytes);
      const FrameHeader header{.kind = FrameKind::kNotification, .bytes = bytes};
      std::memcpy(frame.data(), &header, sizeof(header));
      REQUIRE(::send(theirs.get(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
      Incoming in(ours.get());
      in.read();
      CHECK(in.take_notification() == Notification{.kind = 5, .value = 6});
      CHECK(!in.take_notification());
      CHECK(in.end() == Incoming::End::kLost);
      CHECK(in.end_text() == "its connection carried an invalid message");
    }
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
    const Descriptor ours(ends[0]), theirs(ends[1]);
    std::vector<std::byte> frame(sizeof(FrameHeader) + kNotificationBytes, std::byte{9});
    const FrameHeader header{.kind = FrameKind::kNotification, .bytes = kNotificationBytes};
    std::memcpy(frame.data(), &header, sizeof(header));
    Incoming in(ours.get());
    for (std::size_t i = 0; i < frame.size(); ++i) {
      CHECK(!in.take_notification());
      REQUIRE(::send(theirs.get(), &frame[i], 1, 0) == 1);
      in.read();
    }
    constexpr std::uint64_t kWord = 0x0909090909090909;
    CHECK(in.take_notification() == Notification{.kind = kWord, .value = kWord});
  }
}

}  // namespace dragonn::comm::test

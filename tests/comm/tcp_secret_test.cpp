// SPDX-License-Identifier: MIT
/// Attacks of somebody who reaches the ports of a run, with and without its secret.
#include <array>
#include <atomic>
#include <filesystem>
#include <poll.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "comm/tcp/frame.h"
#include "comm/tcp/handshake.h"
#include "comm/tcp/listener.h"
#include "comm/tcp/rendezvous.h"
#include "comm/tcp/secret.h"
#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "tests/comm/tcp_support.h"
#include "tests/comm/timing.h"

namespace dragonn::comm::test {
namespace {

using Side = Secret::Side;

std::shared_ptr<const Secret> secret_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return std::make_shared<const Secret>(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

/// A listener on the loopback interface with its address.
struct Door {
  Descriptor socket;
  Address address;
};

Door open_door() {
  SocketResult listener = listen_on({.family = Address::Family::kIpv4, .bytes = {127, 0, 0, 1}});
  const Address address = local_address(listener.socket).value();
  return {std::move(listener.socket), address};
}

Descriptor connect(const Address& address) {
  SocketResult connection;
  await([&] { return (connection = connect_to(address, deadline_after(1))).problem.empty(); });
  return std::move(connection.socket);
}

/// Ranks that meet at a port, the first `with` of them with the secret.
std::vector<TcpOptions> ranks_with_secret(const TemporaryFolder& folder, int size, int with, double timeout_s) {
  std::vector<TcpOptions> ranks = tcp_world(size, timeout_s, folder.path());
  for (int rank = 0; rank < with; ++rank)
    ranks[static_cast<std::size_t>(rank)].secret = secret_of("a secret of all ranks");
  return ranks;
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("a secret's proof is HMAC-SHA-256, and differs by side, hello and challenge") {
    const Secret secret = *secret_of("Jefe");
    const std::array<std::byte, 3> hello{std::byte{1}, std::byte{2}, std::byte{3}};
    const Nonce challenge = random_nonce();
    const Proof proof = secret.prove(Side::kConnecting, hello, challenge);
    CHECK(secret.accepts(proof, Side::kConnecting, hello, challenge));
    CHECK_FALSE(secret.accepts(proof, Side::kAccepting, hello, challenge));
    CHECK_FALSE(secret.accepts(proof, Side::kConnecting, std::span(hello).first(2), challenge));
    CHECK_FALSE(secret.accepts(proof, Side::kConnecting, hello, random_nonce()));
    CHECK_FALSE(secret_of("Jeff")->accepts(proof, Side::kConnecting, hello, challenge));
  }

  TEST_CASE("a secret file that is missing, short or open to others is an error that says what to do") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "secret";
    const auto error = [&] {
      try {
        Secret::load(path);
      } catch (const ConfigError& failure) {
        return std::string(failure.what());
      }
      return std::string();
    };
    CHECK(contains(error(), "comm.secret_file: no such file: " + path.string()));
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(contains(error(), "is no regular file, but a FIFO"));
    std::filesystem::remove(path);
    write_file_atomically(path, std::string_view(std::string(5000, 'x')));
    CHECK(contains(error(), "5000 bytes: should be at most 4096"));
    write_file_atomically(path, std::string_view("too short\n"));
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
    CHECK(contains(error(), "9 bytes: a secret has at least 16"));
    write_file_atomically(path, std::string_view("sixteen or more bytes\n"));
    std::filesystem::permissions(path, std::filesystem::perms(0640));
    CHECK(contains(error(), "(mode 0640): chmod 600 it"));
    std::filesystem::permissions(path, std::filesystem::perms(0600));
    CHECK(error() == "");
  }

  TEST_CASE("tcp: ranks with one secret connect, and one with another, or with none, learns why it does not") {
    const TemporaryFolder folder;
    for (const auto& error : run_each(ranks_with_secret(folder, 4, 4, 60), [](const TcpOptions& options) {
           run_tcp(options, [](Communicator& c) { c.barrier(); });
         })) {
      CHECK(text_of(error) == "");
    }
    const double timeout_s = short_deadline(2);
    struct Example {
      std::shared_ptr<const Secret> first, second;
      const char* reason;
    };
    const auto right = secret_of("a secret of all ranks"), wrong = secret_of("a secret of another run");
    for (const Example& example :
         {Example{right, wrong, "it has another secret (comm.secret_file) than this rank"},
          Example{right, nullptr, "it has a secret (comm.secret_file), and this rank has none"},
          Example{nullptr, right, "it has no secret (comm.secret_file), and this rank has one"}}) {
      std::vector<TcpOptions> ranks = tcp_world(2, timeout_s, folder.path());
      ranks[0].secret = example.first;
      ranks[1].secret = example.second;
      const auto errors = run_each(ranks, [](const TcpOptions& options) { connect_ranks(options); });
      CHECK(contains(text_of(errors[0]), "rank 1 did not come within"));
      CAPTURE(text_of(errors[1]));
      CHECK(contains(text_of(errors[1]), example.reason));
    }
  }

  TEST_CASE("tcp: where secrets differ, every rank says so, whichever rank is the odd one") {
    const auto right = secret_of("a secret of all ranks"), wrong = secret_of("a secret of another run");
    struct Example {
      std::shared_ptr<const Secret> max, odd;
      const char* of_odd;   // what rank 0 says of the rank that it refuses: the odd one,
      const char* of_most;  // or all others if rank 0 is the odd one
    };
    const Example examples[] = {{right, wrong, "with another secret (comm.secret_file), and rank 0 has one",
                                 "with another secret (comm.secret_file), and rank 0 has one"},
                                {right, nullptr, "with no secret (comm.secret_file), and rank 0 has one",
                                 "with a secret (comm.secret_file), and rank 0 has none"},
                                {nullptr, right, "with a secret (comm.secret_file), and rank 0 has none",
                                 "with no secret (comm.secret_file), and rank 0 has one"}};
    for (const int size : {2, 3}) {
      const double timeout_s = short_deadline(size);
      for (const Example& example : examples) {
        for (const int odd : {0, size - 1}) {
          const bool by_file = (size + odd) % 2 == 0;
          const TemporaryFolder folder;
          std::vector<TcpOptions> ranks = tcp_world(size, timeout_s, folder.path());
          const std::string place = "tcp:" + open_door().address.text();  // a port that was free a moment ago
          for (TcpOptions& rank : ranks) {
            rank.secret = rank.rank == odd ? example.odd : example.max;
            if (!by_file) rank.rendezvous = parse_rendezvous(place);
          }
          const auto errors = run_each(ranks, [](const TcpOptions& options) { connect_ranks(options); });
          for (int rank = 0; rank < size; ++rank) {
            const std::string message = text_of(errors[static_cast<std::size_t>(rank)]);
            CAPTURE(message);
            const bool hears_rank_0 = rank == 0 || (odd != 0 && rank != odd);
            if (!hears_rank_0) {
              CHECK(contains(message, "secret (comm.secret_file)"));
              CHECK(contains(message, "this rank"));
              continue;
            }
            CHECK(contains(message, "did not come within"));
            CHECK(contains(message, "a process that says it is rank " + std::to_string(size - 1) + " came from "));
            CHECK(contains(message, odd == 0 ? example.of_most : example.of_odd));
          }
        }
      }
    }
  }

  TEST_CASE("tcp: a stranger without the secret neither ends the wait for a rank nor is blamed once the rank comes") {
    const TemporaryFolder folder;
    std::vector<TcpOptions> ranks = ranks_with_secret(folder, 2, 2, 60);
    const std::string place = open_door().address.text();
    for (TcpOptions& rank : ranks) rank.rendezvous = parse_rendezvous("tcp:" + place);
    ranks.push_back(ranks[1]);
    ranks.back().secret = nullptr;
    ranks.back().timeout_s = 0.2;
    std::atomic<bool> stranger_has_left = false;
    const auto errors = run_each(ranks, [&](const TcpOptions& options) {
      const bool is_stranger = options.secret == nullptr;
      if (!is_stranger && options.rank == 1) await([&] { return stranger_has_left.load(); });
      try {
        connect_ranks(options);
      } catch (const CommError&) {
        stranger_has_left = true;
        throw;
      }
    });
    CHECK(text_of(errors[0]) == "");
    CHECK(text_of(errors[1]) == "");
    CHECK(text_of(errors[2]) != "");
  }

  TEST_CASE("tcp: a recorded greeting is worth nothing on another connection") {
    Door door = open_door();
    const auto secret = secret_of("a secret of all ranks");
    Listener listener(std::move(door.socket), secret.get());
    const auto accepted = [&](double seconds) {
      std::string problem;
      return listener.wait(deadline_after(seconds), problem).size();
    };
    Hello hello = hello_of(1, 2);
    hello.has_secret = 1;
    hello.nonce = random_nonce();
    const auto hello_bytes = std::as_bytes(std::span(&hello, 1));
    Proof proof{};
    for (const bool honest : {true, false}) {
      const Descriptor connection = connect(door.address);
      REQUIRE(write_all(connection, hello_bytes, deadline_after(60)).empty());
      while (!wait_for(connection, POLLIN, deadline_after(0.05))) CHECK(accepted(0.1) == 0);  // until it is challenged
      struct {
        Answer answer;
        Challenge challenge;
      } reply{};
      REQUIRE(read_all(connection, std::as_writable_bytes(std::span(&reply, 1)), deadline_after(60)).empty());
      CHECK(reply.answer == kProve);
      CHECK(secret->accepts(reply.challenge.proof, Side::kAccepting, hello_bytes, reply.challenge.nonce));
      if (honest) proof = secret->prove(Side::kConnecting, hello_bytes, reply.challenge.nonce);
      REQUIRE(write_all(connection, proof, deadline_after(60)).empty());
      CHECK(accepted(honest ? 60 : 0.3) == (honest ? 1 : 0));
    }
  }

  TEST_CASE("tcp: silent connections neither stay nor use up the descriptors that ranks need") {
    Door door = open_door();
    Listener listener(std::move(door.socket), nullptr);
    std::vector<Descriptor> silent;
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < 40; ++i) silent.push_back(connect(door.address));
    const Descriptor rank = connect(door.address);
    const Hello hello = hello_of(1, 2);
    REQUIRE(write_all(rank, std::as_bytes(std::span(&hello, 1)), deadline_after(60)).empty());
    rlimit few = before;  // room for half of the silent ones
    few.rlim_cur = static_cast<rlim_t>(rank.get()) + 20;
    ::setrlimit(RLIMIT_NOFILE, &few);
    std::string problem;
    const auto accepted = listener.wait(deadline_after(60), problem);
    ::setrlimit(RLIMIT_NOFILE, &before);
    CHECK(problem == "");
    REQUIRE(accepted.size() == 1);
    CHECK(accepted[0].hello.rank == 1);
  }

  TEST_CASE("tcp: a message longer than any of this program, and a text with controls, do no harm") {
    Door door = open_door();
    const Descriptor sender = connect(door.address);
    const SocketResult receiver = accept_from(door.socket);
    Incoming in(receiver.socket.get());
    const auto send = [&](const FrameHeader& header, const std::string& text) {
      REQUIRE(write_all(sender, std::as_bytes(std::span(&header, 1)), deadline_after(60)).empty());
      REQUIRE(write_all(sender, std::as_bytes(std::span(text)), deadline_after(60)).empty());
    };
    const std::string text = "gone\n\x1b[2J\xc2\x9bred";
    send({.kind = FrameKind::kHere, .tag = 0, .bytes = text.size()}, text);
    std::optional<std::string> answer;
    await([&] {
      in.read();
      return (answer = in.take_answer()).has_value();
    });
    CHECK(*answer == "gone??[2J?red");
    send({.kind = FrameKind::kMessage, .tag = 0, .bytes = std::uint64_t{1} << 60}, "");
    await([&] {
      in.read();
      return in.end() == Incoming::End::kLost;
    });
    CHECK(in.end_text() == "its connection carried an invalid message");
  }

  TEST_CASE("tcp: memory for a message follows its bytes, not its header") {
    Door door = open_door();
    Descriptor sender = connect(door.address);
    const SocketResult receiver = accept_from(door.socket);
    Incoming in(receiver.socket.get());
    std::vector<std::byte> message((16 << 20) + 1000);  // longer than what a header is trusted with
    for (std::size_t i = 0; i < message.size(); i += 999) message[i] = static_cast<std::byte>(i);
    const FrameHeader whole{.kind = FrameKind::kMessage, .tag = 0, .bytes = message.size()};
    const FrameHeader endless{.kind = FrameKind::kMessage, .tag = 1, .bytes = kLongestMessage};
    std::jthread writer([&] {
      CHECK(write_all(sender, std::as_bytes(std::span(&whole, 1)), deadline_after(60)).empty());
      CHECK(write_all(sender, message, deadline_after(60)).empty());
      CHECK(write_all(sender, std::as_bytes(std::span(&endless, 1)), deadline_after(60)).empty());
      CHECK(write_all(sender, message, deadline_after(60)).empty());
      sender = {};
    });
    await([&] {
      in.read();
      return in.is_closed();
    });
    CHECK(in.end_text() == "its connection was closed");
    std::vector<std::byte> received(message.size());
    const std::size_t number = in.start(0, received);
    CHECK(in.is_done(number));
    CHECK(received == message);
  }
}

}  // namespace dragonn::comm::test

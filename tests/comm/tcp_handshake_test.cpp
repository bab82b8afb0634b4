// SPDX-License-Identifier: MIT
/// Tests of the handshake: ranks connect, or all that came get one error.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <doctest/doctest.h>

#include "comm/tcp/handshake.h"
#include "comm/tcp/listener.h"
#include "comm/tcp/rendezvous.h"
#include "comm/tcp/socket.h"
#include "core/file.h"
#include "tests/comm/cases.h"
#include "tests/comm/tcp_support.h"
#include "tests/comm/timing.h"

namespace dragonn::comm::test {
namespace {

/// Runs the handshake and returns the errors of `ranks`, in their order.
std::vector<std::string> errors_of(const std::vector<TcpOptions>& ranks) {
  std::vector<std::string> texts;
  for (const auto& error : run_each(ranks, [](const TcpOptions& options) { connect_ranks(options); })) {
    texts.push_back(text_of(error));
  }
  return texts;
}

/// A port that was free a moment ago.
std::uint16_t free_port() {
  return Listener(listen_everywhere(0).socket).port();
}

std::vector<TcpOptions> world_at(const std::string& place, int size, double timeout_s) {
  const TemporaryFolder unused;
  std::vector<TcpOptions> ranks = tcp_world(size, timeout_s, unused.path());
  for (TcpOptions& rank : ranks) rank.rendezvous = parse_rendezvous(place);
  return ranks;
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("tcp: the rendezvous may be an IPv4 address, an IPv6 address or a name") {
    std::vector<std::string> places{"tcp:127.0.0.1", "tcp:localhost"};
    if (listen_on({.family = Address::Family::kIpv6}).problem.empty()) places.push_back("tcp:[::1]");
    for (const Address& address : addresses_of_this_machine(1)) {
      const std::string text = address.text();
      places.push_back("tcp:" + text.substr(0, text.rfind(':')));
    }
    for (const std::string& place : places) {
      CAPTURE(place);
      const std::vector<TcpOptions> ranks = world_at(place + ":" + std::to_string(free_port()), 4, 30);
      const auto errors = run_each(ranks, [](const TcpOptions& options) {
        run_tcp(options, [](Communicator& c) {
          std::array<std::uint64_t, 1> sum{1};
          c.allreduce_sum(std::span<std::uint64_t>(sum));
          expect(sum[0] == 4, "all are there");
        });
      });
      for (const auto& error : errors) CHECK(text_of(error) == "");
    }
  }

  TEST_CASE("tcp: the rendezvous file is removed at the end, and one of an earlier run does no harm") {
    const TemporaryFolder folder;
    // An earlier run's address is one where nobody listens, or where something else does.
    const SocketResult stranger = listen_on({.family = Address::Family::kIpv4, .bytes = {127, 0, 0, 1}});
    const auto taken = local_address(stranger.socket);
    REQUIRE(taken.has_value());
    for (const std::uint64_t port : {std::uint64_t{free_port()}, taken->port}) {
      const PublishedFile stale(
          folder.path() / "rendezvous",
          {.token = 5, .addresses = {{.family = taken->family, .bytes = taken->bytes, .port = port}}});
      const std::vector<TcpOptions> ranks = tcp_world(3, 30, folder.path());
      const auto errors = run_each(ranks, [](const TcpOptions& options) {
        if (options.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        connect_ranks(options);
      });
      for (const auto& error : errors) CHECK(text_of(error) == "");
      CHECK_FALSE(std::filesystem::exists(folder.path() / "rendezvous"));
    }
    write_file_atomically(folder.path() / "rendezvous", std::string_view("something else"));
    CHECK(errors_of(tcp_world(2, 30, folder.path())) == std::vector<std::string>(2));
  }

  TEST_CASE("tcp: what is no file at the rendezvous file's path is an error of every rank at once, and stays there") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "rendezvous";
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    const std::pair<const char*, std::function<bool()>> others[] = {
        {"FIFO", [&] { return ::mkfifo(path.c_str(), 0600) == 0; }},
        {"folder", [&] { return std::filesystem::create_directory(path); }},
        {"device", [&] { return ::symlink("/dev/zero", path.c_str()) == 0; }},
        {"socket",
         [&] { return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0; }}};
    for (const auto& [kind, make] : others) {
      REQUIRE(make());
      const auto errors = errors_of(tcp_world(3, 3600, folder.path()));
      for (std::size_t rank = 0; rank < errors.size(); ++rank) {
        CHECK(errors[rank] ==
              fmt::format("rank {} of 3, comm.rendezvous: {} is no regular file, but a {}", rank, path.string(), kind));
      }
      CHECK_FALSE(std::filesystem::is_regular_file(path));
      CHECK(std::filesystem::remove(path));
    }
  }

  TEST_CASE("tcp: a long file at the rendezvous file's path is not read, and rank 0 replaces it") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "rendezvous";
    write_file_atomically(path, std::string_view("text"));
    std::filesystem::resize_file(path, std::uintmax_t{1} << 42);  // without blocks on the disk
    CHECK_FALSE(RendezvousFile::read(path).has_value());
    CHECK(errors_of(tcp_world(2, 30, folder.path())) == std::vector<std::string>(2));
  }

  TEST_CASE("tcp: two runs that use one rendezvous one after the other do not mix") {
    const TemporaryFolder folder;
    std::vector<TcpOptions> ranks = tcp_world(2, 30, folder.path());
    const std::vector<TcpOptions> others = tcp_world(2, 30, folder.path());
    for (TcpOptions& rank : ranks) rank.rendezvous.run = 7;
    ranks.push_back(others[1]);  // comes while the first run's rank 0 is there
    ranks.push_back(others[0]);
    std::atomic<int> connected = 0;  // ranks of the first run
    const auto errors = run_each(ranks, [&](const TcpOptions& options) {
      const bool second = options.rendezvous.run == 0;
      if (second && options.rank == 0) await([&] { return connected == 2; });
      if (!second && options.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      run_tcp(options, [&](Communicator& c) {
        if (!second) ++connected;
        std::array<std::uint64_t, 1> sum{options.rendezvous.run};
        c.allreduce_sum(std::span<std::uint64_t>(sum));
        expect(sum[0] == 2 * options.rendezvous.run, "only this run's ranks are there");
      });
    });
    for (const auto& error : errors) CHECK(text_of(error) == "");
  }

  TEST_CASE("tcp: ranks that do not fit together are an error of all that came, with the reason") {
    const TemporaryFolder folder;
    struct Example {
      int rank, size;
      const char* reason;
    };
    for (const Example& example : {Example{2, 5, "rank 2 was started as one of 5 ranks, and rank 0 as one of 3"},
                                   Example{1, 3, "two processes were started as rank 1 of 3"}}) {
      for (const bool comes_first : {true, false}) {
        std::vector<TcpOptions> ranks = tcp_world(3, 30, folder.path());
        ranks[2].rank = example.rank;
        ranks[2].size = example.size;
        const auto errors = run_each(ranks, [&](const TcpOptions& options) {
          if (options.rank == (comes_first ? 1 : 2)) std::this_thread::sleep_for(std::chrono::milliseconds(200));
          connect_ranks(options);
        });
        for (const auto& error : errors) {
          CAPTURE(text_of(error));
          CHECK(contains(text_of(error), example.reason));
          CHECK(contains(text_of(error), "rendezvous over TCP at the file " + (folder.path() / "rendezvous").string()));
        }
      }
    }
    CHECK_THROWS_AS(run_tcp({.rank = 3, .size = 3}, [](Communicator&) {}), CommError);
  }

  TEST_CASE("tcp: a rank of another version of the program is refused") {
    const std::string place = "127.0.0.1:" + std::to_string(free_port());
    std::vector<TcpOptions> ranks = world_at("tcp:" + place, 2, 30);
    const auto errors = run_each(ranks, [&](const TcpOptions& options) {
      if (options.rank == 0) {
        connect_ranks(options);
        return;
      }
      Hello hello = hello_of(1, 2);
      hello.version = {'v', '0'};
      SocketResult connection;
      do {
        connection = connect_to(*parse_address(place), deadline_after(1));
      } while (!connection.problem.empty());
      expect(write_all(connection.socket, std::as_bytes(std::span(&hello, 1)), deadline_after(60)).empty(),
             "said hello");
      std::array<std::byte, 16> answer{};  // the reply, and the length of the verdict
      expect(read_all(connection.socket, std::span(answer), deadline_after(60)).empty(), "was answered");
    });
    CHECK(contains(text_of(errors[0]), "rank 1 runs dragonn v0, and rank 0 runs "));
  }

  TEST_CASE("tcp: a rank that does not come is named when the deadline has passed") {
    const TemporaryFolder folder;
    const double timeout_s = short_deadline(4);
    std::vector<TcpOptions> ranks = tcp_world(4, timeout_s, folder.path());
    ranks.erase(ranks.begin() + 2);
    for (const std::string& error : errors_of(ranks)) {
      CHECK(contains(error, fmt::format("rank 2 did not come within {} s (comm.timeout_s)", timeout_s)));
    }
    CHECK_FALSE(std::filesystem::exists(folder.path() / "rendezvous"));

    ranks = tcp_world(3, timeout_s, folder.path());
    ranks.erase(ranks.begin());
    for (const std::string& error : errors_of(ranks)) {
      CHECK(contains(error, fmt::format("rank 0 is not there within {} s (comm.timeout_s): rank 0 has not written it",
                                        timeout_s)));
    }
    ranks = world_at("tcp:127.0.0.1:" + std::to_string(free_port()), 2, timeout_s);
    CHECK(contains(errors_of({ranks[1]})[0], "Connection refused"));
  }

  TEST_CASE("tcp: a rendezvous address in use is an error that says so") {
    const SocketResult taken = listen_on({.family = Address::Family::kIpv4, .bytes = {127, 0, 0, 1}});
    const auto ranks = world_at("tcp:" + local_address(taken.socket)->text(), 2, 1);
    CHECK(contains(errors_of({ranks[0]})[0], "cannot listen there: Address already in use"));
    CHECK(contains(errors_of({ranks[1]})[0], "rank 0 is not there"));
  }

  TEST_CASE("tcp: connections of other programs do not disturb") {
    const std::string place = "127.0.0.1:" + std::to_string(free_port());
    std::vector<TcpOptions> ranks = world_at("tcp:" + place, 3, 30);
    ranks.push_back(ranks[0]);
    ranks.back().rank = 99;
    std::atomic<bool> strangers_were_there = false;
    const auto errors = run_each(ranks, [&](const TcpOptions& options) {
      if (options.rank < 3) {
        if (options.rank == 2) await([&] { return strangers_were_there.load(); });
        connect_ranks(options);
        return;
      }
      for (const std::string text : {"GET / HTTP/1.1\r\n\r\n", "dra", ""}) {
        SocketResult connection;
        await([&] { return (connection = connect_to(*parse_address(place), deadline_after(1))).problem.empty(); });
        expect(write_all(connection.socket, std::as_bytes(std::span(text)), deadline_after(60)).empty(), "was heard");
      }
      strangers_were_there = true;
    });
    for (const auto& error : errors) CHECK(text_of(error) == "");
  }
}

}  // namespace dragonn::comm::test

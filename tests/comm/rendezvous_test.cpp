// SPDX-License-Identifier: MIT
#include "comm/tcp/rendezvous.h"

#include <doctest/doctest.h>

#include "comm/launcher.h"
#include "comm/tcp/tcp.h"
#include "tests/comm/scoped_environment.h"
#include "tests/comm/tcp_support.h"

namespace dragonn::comm::test {

TEST_SUITE("comm") {
  TEST_CASE("the first host of Slurm's list is found in every form of it") {
    CHECK(first_host("n01") == "n01");
    CHECK(first_host("n01,n02") == "n01");
    CHECK(first_host("n[01-03,07]") == "n01");
    CHECK(first_host("n[7,09-12],gpu[1-2]") == "n7");
    CHECK(first_host("login,n[1-2]") == "login");
    CHECK(first_host("r[1-2]n[08-09]") == "r1n08");
    CHECK(first_host("rack[3]-gpu.cluster.org,other") == "rack3-gpu.cluster.org");
    for (const char* damaged : {"", ",n1", "n[", "n[1-3", "n[]", "n[a-b]", "n]1"}) {
      CAPTURE(damaged);
      CHECK(first_host(damaged).empty());
    }
  }

  TEST_CASE("a rendezvous is a host and port, or a file") {
    const Rendezvous host = parse_rendezvous("tcp:node-1.example:4000");
    CHECK((host.address.host == "node-1.example" && host.address.port == 4000 && !host.by_file()));
    CHECK(parse_rendezvous("tcp:10.0.0.1:65535").text() == "10.0.0.1:65535");
    const Rendezvous ipv6 = parse_rendezvous("tcp:[fe80::1]:4000");
    CHECK(ipv6.address.host == "fe80::1");
    CHECK(ipv6.text() == "[fe80::1]:4000");
    CHECK(parse_rendezvous("file:/home/me/rendezvous").file == "/home/me/rendezvous");
    const TemporaryFolder folder;
    CHECK(parse_rendezvous("file:" + folder.path().string()).file == folder.path() / "dragonn-rendezvous");
    for (const char* wrong : {"node:4000", "tcp:node", "tcp:node:", "tcp::4000", "tcp:node:0", "tcp:node:65536",
                              "tcp:node:4000x", "tcp:fe80::1:4000", "tcp:[]:4000", "file:", "ftp:node:1"}) {
      CAPTURE(wrong);
      CHECK_THROWS_WITH_AS(parse_rendezvous(wrong), doctest::Contains("expected \"tcp:HOST:PORT\""), ConfigError);
    }
  }

  TEST_CASE("a rendezvous of megabytes is shown by its beginning, and one that no file system takes is no crash") {
    for (const char* kind : {"", "tcp:"}) {
      try {
        parse_rendezvous(kind + std::string(5'000'000, 'x') + "\x1b[2J");
        FAIL("no error");
      } catch (const ConfigError& error) {
        CHECK(std::string(error.what()).size() < 500);
      }
    }
    CHECK(parse_rendezvous("file:" + std::string(5000, 'x')).by_file());
  }

  TEST_CASE("only what all ranks reach by the loopback interface is on one machine") {
    for (const char* loopback : {"tcp:localhost:1", "tcp:127.0.0.1:1", "tcp:127.3.2.1:1", "tcp:[::1]:1"}) {
      CHECK(parse_rendezvous(loopback).is_loopback());
    }
    for (const char* other : {"tcp:10.0.0.1:1", "tcp:node:1", "tcp:[fe80::1]:1", "file:/tmp/x"}) {
      CHECK_FALSE(parse_rendezvous(other).is_loopback());
    }
  }

  TEST_CASE("the environment names the place: MASTER_ADDR and MASTER_PORT, else srun's first host") {
    const std::map<std::string, std::string> slurm{{"SLURM_STEP_ID", "3"},
                                                   {"SLURM_JOB_ID", "4711"},
                                                   {"SLURM_PROCID", "1"},
                                                   {"SLURM_STEP_NUM_TASKS", "4"},
                                                   {"SLURM_STEP_NODELIST", "n[01-03,07]"}};
    {
      const ScopedEnvironment environment(slurm);
      const Rendezvous place = find_rendezvous("");
      CHECK(place.address.host == "n01");
      CHECK(place.address.port == slurm_port("4711", "3"));
      CHECK(place.run != 0);
      CHECK(find_rendezvous("tcp:a:5").run == place.run);
      CHECK(find_rendezvous("tcp:a:5").address.host == "a");
    }
    {
      const ScopedEnvironment environment([&] {
        auto next_step = slurm;
        next_step["SLURM_STEP_ID"] = "4";
        next_step["MASTER_ADDR"] = "::1";
        next_step["MASTER_PORT"] = "29500";
        return next_step;
      }());
      const Rendezvous place = find_rendezvous("");
      CHECK(place.text() == "[::1]:29500");
      const ScopedEnvironment other(slurm);
      CHECK(place.run != find_rendezvous("").run);
    }
    {
      const ScopedEnvironment environment({{"MASTER_ADDR", "node"}, {"MASTER_PORT", "many"}});
      CHECK_THROWS_WITH_AS(find_rendezvous(""), doctest::Contains("MASTER_PORT='many'"), ConfigError);
    }
    {
      const ScopedEnvironment environment({{"MASTER_ADDR", "node"}, {"MASTER_PORT", ""}});
      CHECK_THROWS_AS(find_rendezvous(""), ConfigError);
    }
    const ScopedEnvironment environment({});
    CHECK_THROWS_WITH_AS(find_rendezvous(""), doctest::Contains("set comm.rendezvous"), ConfigError);
  }

  TEST_CASE("the ports of Slurm's steps are spread over their range") {
    std::map<std::uint16_t, int> ports;
    for (int job = 0; job < 100; ++job) ++ports[slurm_port(std::to_string(job), "0")];
    CHECK(ports.begin()->first >= 20000);
    CHECK(ports.rbegin()->first < 30000);
    CHECK(ports.size() > 90);
  }

  TEST_CASE("rank and size come from RANK and WORLD_SIZE, else from the launcher") {
    const std::map<std::string, std::string> srun{
        {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}};
    {
      const ScopedEnvironment environment(srun);
      const TcpOptions options = tcp_options("tcp:a:5", 7);
      CHECK((options.rank == 1 && options.size == 4 && options.timeout_s == 7 && options.rendezvous.address.port == 5));
    }
    {
      auto torchrun = srun;
      torchrun["RANK"] = "6";
      torchrun["WORLD_SIZE"] = "8";
      const ScopedEnvironment environment(torchrun);
      const TcpOptions options = tcp_options("tcp:a:5", 7);
      CHECK((options.rank == 6 && options.size == 8));
      CHECK(launched_by_mpi());  // these two are not MPI's
      CHECK(detect_launcher()->rank == 1);
    }
    {
      const ScopedEnvironment environment({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
      CHECK_FALSE(launched_by_mpi());
    }
    {
      const ScopedEnvironment environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
      CHECK_NOTHROW(tcp_options("", 7));  // one rank needs no rendezvous
    }
    {
      const ScopedEnvironment environment({{"RANK", "4"}, {"WORLD_SIZE", "4"}});
      CHECK_THROWS_WITH_AS(tcp_options("tcp:a:5", 7), doctest::Contains("rank 4 of 4"), ConfigError);
    }
    for (const char* given : {"NONE", "RANK", "WORLD_SIZE"}) {
      const ScopedEnvironment environment({{given, "1"}, {"NUMBER", "2"}});
      CHECK_THROWS_WITH_AS(tcp_options("tcp:a:5", 7), doctest::Contains("set RANK and WORLD_SIZE"), ConfigError);
    }
  }
}

}  // namespace dragonn::comm::test

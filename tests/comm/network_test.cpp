// SPDX-License-Identifier: MIT
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "comm/network_model.h"
#include "core/error.h"

namespace dragonn::comm::test {

namespace {

void same_everywhere(const std::vector<NetworkModel>& networks) {
  for (const NetworkModel& network : networks) {
    CHECK(network.bytes_per_second > 0);
    CHECK(network.latency_seconds == networks[0].latency_seconds);
    CHECK(network.bytes_per_second == networks[0].bytes_per_second);
  }
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("network presets are found by name, and others refused with the list") {
    CHECK(network_preset("1gbe").latency_seconds == 0.436e-3);
    CHECK(network_preset("1gbe-switch").latency_us() == doctest::Approx(50));
    CHECK(network_preset("25gbe").bytes_per_second == 3.125e9);
    for (const std::string& name : network_preset_names()) CHECK(network_preset(name).bytes_per_second > 0);
    CHECK_THROWS_WITH_AS(
        network_preset("1gb"),
        "unknown network preset '1gb'; did you mean '1gbe'? valid: 1gbe, 1gbe-switch, 10gbe, 25gbe, 100g-ib",
        ConfigError);
  }

  TEST_CASE("units convert exactly, and a message costs its latency and its bytes") {
    const NetworkModel network = NetworkModel::from_units(/*latency_us=*/20, /*gbps=*/25);
    CHECK(network.latency_seconds == 20e-6);
    CHECK(network.bytes_per_second == 3.125e9);
    CHECK(network.gbps() == 25);
    CHECK(NetworkModel{0.5, 4}.seconds(/*messages=*/6, /*bytes=*/10) == 5.5);
  }

  TEST_CASE("the fit finds the line that message times lie on") {
    const std::vector<PingPong> line{{0, 0.25}, {1000, 0.5}, {3000, 1.0}};
    const NetworkModel network = fit_network(line);
    // Sums of a few quotients: a few units in the last place.
    CHECK(network.latency_seconds == doctest::Approx(0.25).epsilon(1e-12));
    CHECK(network.bytes_per_second == doctest::Approx(4000).epsilon(1e-12));
  }

  TEST_CASE("the fit has no negative latency or bandwidth, whatever the noise") {
    CHECK(fit_network(std::vector<PingPong>{{1000, 0.1}, {2000, 0.3}}).latency_seconds == 0);
    const NetworkModel falling = fit_network(std::vector<PingPong>{{8, 2}, {1000, 1}});
    CHECK(falling.latency_seconds == 0);
    CHECK(falling.bytes_per_second == 1000);
  }

  TEST_CASE("a measured network is the same on every rank") {
    for (const int ranks : {2, 3, 5}) {
      std::vector<NetworkModel> networks(static_cast<std::size_t>(ranks));
      run_local(ranks, {.timeout_s = 60}, [&](Communicator& communicator) {
        networks[static_cast<std::size_t>(communicator.rank())] = measure_network(communicator);
      });
      same_everywhere(networks);
      std::vector<std::uint64_t> sent(static_cast<std::size_t>(ranks));
      run_local(ranks, {.timeout_s = 60}, [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        networks[rank] = measure_network_briefly(communicator);
        sent[rank] = communicator.traffic()[Phase::kControl].bytes_sent;
      });
      same_everywhere(networks);
      // Four messages of each size, and a little control.
      CHECK(sent[0] <= 4 * (8 + (1 << 16) + (1 << 20)) + 4096);
      CHECK(sent[1] <= sent[0] + 4096);
    }
  }
}

}  // namespace dragonn::comm::test

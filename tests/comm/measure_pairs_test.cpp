// SPDX-License-Identifier: MIT
// The measurement of pairs of nodes finds the network that there is: on virtual clusters, whose links are known.
#include "comm/measure_pairs.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "comm/network_file.h"
#include "core/error.h"
#include "tests/comm/support.h"
#include "tests/comm/virtual_cluster.h"

namespace dragonn::comm::test {
namespace {

constexpr double kSeconds = 0.03;  // of virtual time

/// Three nodes, of which the first has two workers.
NodeLinks uneven() {
  return {.workers = {2, 1, 1},
          .inside = {{1e-5, 1e8}, {}, {}},
          .up = {1.5e7, 4e7, 4e7},
          .down = {4e7, 4e7, 1.2e7},
          .pairs = {{}, {1e-3, 1e7}, {2e-4, 3e7}, {1e-3, 2e7}, {}, {1e-4, 3e7}, {4e-4, 1e7}, {1e-4, 5e6}, {}}};
}

NodeLinks measured_on(const NodeLinks& links) {
  const Nodes nodes = Nodes::of_sizes(links.workers);
  std::vector<NodeLinks> found(static_cast<std::size_t>(nodes.ranks()));
  std::vector<std::size_t> parts(found.size());
  run_local(nodes.ranks(), {.timeout_s = 60, .network = kNetwork, .nodes = links, .compute = Compute::kZero},
            [&](Communicator& communicator) {
              const std::size_t rank = unsigned_rank(communicator);
              const auto count = [&](std::size_t done, std::size_t) { parts[rank] = done; };
              found[rank] = measure_pairs(communicator, nodes, {.seconds = kSeconds, .on_part = count});
            });
  for (const std::size_t done : parts) CHECK(done == parts_of_measurement(nodes));
  for (const NodeLinks& other : found) CHECK(network_file_text(other, "") == network_file_text(found[0], ""));
  return found[0];
}

doctest::Approx near(double value, double share) {
  return doctest::Approx(value).epsilon(share).scale(0);
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("measure_pairs finds the latency and rate of every pair, and what is inside nodes") {
    const NodeLinks links = uneven(), found = measured_on(links);
    CHECK(found.workers == links.workers);
    // Long messages have 75 kB and more, and follow 8 bytes, which hold them up where the pair is slower than the port.
    constexpr double kExact = 2e-4;
    for (std::size_t from = 0; from < 3; ++from) {
      for (std::size_t to = 0; to < 3; ++to) {
        if (from == to) continue;
        const double there = links.pairs[from * 3 + to].latency_seconds,
                     back = links.pairs[to * 3 + from].latency_seconds;
        CHECK(found.pairs[from * 3 + to].latency_seconds == near((there + back) / 2, kExact));
        CHECK(found.pairs[from * 3 + to].bytes_per_second ==
              near(path_between(links, from, to).bytes_per_second, kExact));
      }
    }
    CHECK(found.inside[0].latency_seconds == near(1e-5, kExact));
    CHECK(found.inside[0].bytes_per_second == near(1e8, kExact));
  }

  TEST_CASE("measure_pairs tells a port's rate from its pairs', up to what they carry together") {
    const NodeLinks found = measured_on(uneven());
    CHECK(found.up[0] == near(1.5e7, 0.02));
    // Of two senders the one that is nearer begins 0.2 ms earlier, of some 40 ms.
    CHECK(found.down[2] == near(1.2e7, 0.02));
    // Sixteen messages to each peer: the last ones of all end within a sixteenth of the whole.
    CHECK(found.up[1] == near(3.2e7, 0.07));
    CHECK(found.up[2] == near(1.5e7, 0.07));
    CHECK(found.down[0] == near(3e7, 0.07));
    CHECK(found.down[1] == near(1.5e7, 0.07));
  }

  TEST_CASE("measure_pairs of one node measures what is inside") {
    const NodeLinks found = measured_on({.workers = {2}, .inside = {{1e-5, 1e7}}});
    CHECK(slowest_path(found).bytes_per_second == near(1e7, 2e-4));
    CHECK(parse_network_file(network_file_text(found, ""), "text").workers == std::vector{2});
  }

  TEST_CASE("measure_pairs ends on all ranks where one fails") {
    CHECK_THROWS_WITH_AS(
        run_local(
            3, {.timeout_s = 60},
            [](Communicator& communicator) {
              const auto fail = [&](std::size_t, std::size_t) {
                if (communicator.rank() == 2) throw Error("it fails");
              };
              measure_pairs(communicator, Nodes::of_sizes(std::vector{1, 1, 1}), {.seconds = 1e-3, .on_part = fail});
            }),
        "it fails", Error);
  }
}

}  // namespace dragonn::comm::test

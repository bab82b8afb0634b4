// SPDX-License-Identifier: MIT
/// Nodes, and parts of a group: every collective of a part gives and moves what it does in a group of that size.
#include "comm/nodes.h"

#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "comm/machine.h"
#include "comm/subgroup.h"
#include "core/error.h"
#include "tests/comm/cases.h"
#include "tests/support/text.h"

namespace dragonn::comm::test {
namespace {

using dragonn::test::contains;

/// The ranks of a group whose number has the same remainder.
std::vector<int> alike(const Communicator& whole, int parts) {
  std::vector<int> ranks;
  for (int rank = whole.rank() % parts; rank < whole.size(); rank += parts) ranks.push_back(rank);
  return ranks;
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("nodes: neighbours share one, the last has the rest, and places are those of the smallest") {
    const Nodes nodes = Nodes::of_size(7, 3);
    CHECK(nodes.count() == 3);
    CHECK(nodes.ranks() == 7);
    CHECK(nodes.places() == 1);
    CHECK(nodes.most() == 3);
    CHECK(nodes.ranks_of(1) == std::vector{3, 4, 5});
    CHECK(nodes.node_of(6) == 2);
    CHECK(nodes.place_of(5) == 2);
    CHECK(nodes.ranks_at(0) == std::vector{0, 3, 6});
    CHECK(nodes.ranks_at(1).empty());
    CHECK(describe(nodes) == "3 nodes of 1 to 3 workers");
    CHECK(describe(Nodes::of_size(8, 4)) == "2 nodes of 4 workers");
    CHECK(describe(Nodes::of_size(2, 1)) == "2 nodes of 1 worker");
    CHECK(describe(Nodes(4)) == "one node of 4 workers");
    CHECK(Nodes(4) == Nodes::of_size(4, 4));
    CHECK(Nodes(4) != Nodes::of_size(4, 2));
  }

  TEST_CASE("nodes: ranks are dealt round nodes, which are numbered by their lowest rank") {
    const std::array given{7, 3, 7, 3, 7};
    const Nodes nodes{std::span<const int>(given)};
    CHECK(nodes.ranks_of(0) == std::vector{0, 2, 4});
    CHECK(nodes.ranks_of(1) == std::vector{1, 3});
    CHECK(nodes.ranks_at(1) == std::vector{2, 3});
    CHECK(Nodes(nodes.nodes_of_ranks()) == nodes);
  }

  TEST_CASE("nodes: local ranks share one") {
    run_local(3, {.timeout_s = 60},
              [](Communicator& communicator) { expect(find_nodes(communicator) == Nodes(3), "one node of all"); });
  }

  TEST_CASE("a part of a group: messages, allreduces, collectives and sparse collectives are those of a group") {
    for (const auto cases : {message_cases(), allreduce_cases(), collective_cases(), sparse_cases(), region_cases()}) {
      for (const Case& claim : cases) {
        CAPTURE(claim.claim);
        CHECK_NOTHROW(run_local(5, {.timeout_s = 60}, [&](Communicator& whole) {
          Subgroup part(whole, alike(whole, 2));  // of 3 and of 2 ranks
          claim.body(part);
        }));
      }
    }
  }

  TEST_CASE("a part of a group: its order is its own, its traffic the group's, and errors name ranks of the group") {
    std::string error;
    try {
      run_local(4, {.timeout_s = 60}, [&](Communicator& whole) {
        if (whole.rank() % 2 == 0) return;
        Subgroup part(whole, {3, 1});
        expect(part.rank() == (whole.rank() == 3 ? 0 : 1), "numbers by the order of the list");
        std::array<std::byte, 8> bytes{};
        if (part.rank() == 0) {
          part.send(1, 5, View<const std::byte>(bytes));
          expect(whole.traffic()[Phase::kControl].bytes_sent == 8, "counted once, in the whole");
          part.recv(1, 6, View<std::byte>(std::span(bytes)));
        } else {
          part.recv(0, 5, View<std::byte>(std::span(bytes)));
          const View<const std::byte> four(bytes.data(), 4);
          part.notify(0, {.kind = 2, .value = 9});
          part.send(0, 6, four);
        }
        if (part.rank() == 0) {
          const auto taken = part.wait_for_notification(1);
          expect(taken && taken->value == 9 && taken->source == 1, "a notification from the part's rank 1");
        }
        if (part.rank() == 1) part.send(0, 7, View<const std::byte>(bytes.data(), 2));
        if (part.rank() == 0) part.recv_exactly(1, 7, View<std::byte>(std::span(bytes)));
      });
    } catch (const CommError& failure) {
      error = failure.what();
    }
    CHECK(contains(error, "rank 3, receiving from rank 1: received 2 bytes instead of 8"));
  }
}

}  // namespace dragonn::comm::test

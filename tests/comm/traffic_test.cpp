// SPDX-License-Identifier: MIT
/// Tests of the words that each rank sends and receives, against the table of docs/algorithms.md, section 3, at 2 to 64
/// ranks.
#include <bit>
#include <numeric>

#include <doctest/doctest.h>

#include "comm/local/local.h"
#include "core/sparse_vector.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

constexpr std::size_t kPerRegion = 2;
constexpr std::size_t kRegion = 100;

/// Selections with as many entries in the region of every rank, some of them shared: every count is a multiple of P.
struct Even {
  explicit Even(const Communicator& communicator)
      : ranks(unsigned_size(communicator)),
        me(unsigned_rank(communicator)),
        numel(ranks * kRegion),
        k(ranks * kPerRegion),
        united(ranks * (std::min<std::size_t>(ranks, 5) + kPerRegion - 1)) {
    Indices indices;
    for (std::size_t region = 0; region < ranks; ++region) {
      for (std::size_t i = 0; i < kPerRegion; ++i) {
        indices.push_back(static_cast<std::uint32_t>(region * kRegion + me % 5 + i));
      }
    }
    acc.assign(numel, 1.0f);
    selected = entries_at(acc, indices);
  }

  std::size_t ranks, me, numel, k, united;
  std::vector<float> acc;
  SparseVector selected;
};

Outcome run(Communicator& communicator, const Even& even, const std::string& collective, const Overrides& settings = {},
            const SelectionTraits& traits = {}) {
  const auto object = make_collective(collective, even.numel, settings);
  const ReduceContext context{.k = even.k, .density = 0.02, .selection = traits};
  return exchange(communicator, *object, context, even.acc, even.selected);
}

/// Expects the same number of words, of 4 bytes, both ways.
void expect_words(const Outcome& outcome, std::size_t words, const char* claim) {
  expect(outcome.payload.bytes_sent == 4 * words && outcome.payload.bytes_received == 4 * words, claim);
}

std::size_t children(std::size_t position, std::size_t ranks) {
  std::size_t count = 0;
  const std::size_t reach = position == 0 ? std::bit_ceil(ranks) : position & -position;
  for (std::size_t distance = reach / 2; distance > 0; distance /= 2) count += position + distance < ranks ? 1 : 0;
  return count;
}

void expect_formulas(Communicator& communicator) {
  const Even even(communicator);
  const std::size_t others = even.ranks - 1;
  const auto share = [&](std::size_t words) { return words * others / even.ranks; };
  const SelectionTraits fixed{.fixed_size = true};

  const Outcome gathered = run(communicator, even, "allgather", {}, fixed);
  expect_words(gathered, 2 * even.k * others, "allgather: 2k(P-1)");
  expect(gathered.header == Traffic{}, "allgather of a fixed size: no header");

  const Outcome united = run(communicator, even, "index_union", {}, fixed);
  expect_words(united, even.k * others + share(2 * even.united), "index_union: k(P-1) + 2|J|(P-1)/P");
  expect(united.header == Traffic{}, "index_union of a fixed size: no header");
  expect_words(run(communicator, even, "index_union"), even.k * others + share(2 * even.united), "and with counts");

  const Outcome led = run(communicator, even, "cltk");
  expect(led.payload.bytes_sent == 4 * (children(even.me, even.ranks) * even.k + share(2 * even.k)),
         "cltk: k for each child, and 2k(P-1)/P");
  expect(led.payload.bytes_received == 4 * ((even.me == 0 ? 0 : even.k) + share(2 * even.k)), "cltk: k, 2k(P-1)/P");

  const SelectionTraits disjoint{.partitioned = true};
  expect_words(run(communicator, even, "exdyna", {}, disjoint), even.k * others + share(2 * even.united),
               "exdyna: m(P-1) + 2k'(P-1)/P");

  // Every message of the tree has k entries: up to the parent, and down to each child.
  const std::size_t messages = (even.me == 0 ? 0 : 1) + children(even.me, even.ranks);
  expect_words(run(communicator, even, "gtopk"), 2 * even.k * messages, "gtopk: 2k for each edge of the tree");
  const Outcome headless = run(communicator, even, "gtopk", {}, {.at_most_k = true});
  expect_words(headless, 2 * even.k * messages, "gtopk of at most k entries: the same");
  expect(headless.header == Traffic{}, "and no counts");
  if (even.me == 0) expect(messages == std::bit_width(even.ranks - 1), "gtopk: 2k ceil(log2 P) of rank 0");
  expect_words(run(communicator, even, "gtopk", {{"put_back", "exact"}}), 2 * even.k * messages + share(2 * even.k),
               "gtopk, exact: 2k(P-1)/P more");
  for (const SelectionTraits& traits : {SelectionTraits{}, SelectionTraits{.at_most_k = true}}) {
    const Outcome ranked = run(communicator, even, "gtopk", {{"put_back", "naive"}}, traits);
    expect_words(ranked, 2 * even.k * others, "gtopk, naive: 2k(P-1)");
    expect(ranked.header.bytes_sent == 4 * others, "and counts, whatever the selections");
  }
  expect_words(run(communicator, even, "gtopk", {{"put_back", "paper"}}), 2 * even.k * messages,
               "gtopk, paper: measuring the loss is not the method's traffic");

  const Outcome sparse = run(communicator, even, "dsa");
  expect_words(sparse, share(2 * even.k) + share(2 * even.united), "dsa, sparse: (2k + 2|J|)(P-1)/P");
  expect(sparse.header.bytes_sent == 4 * 2 * others, "dsa: two words of header for each other rank");
  expect_words(run(communicator, even, "dsa", {{"switch", 0.0}}), share(2 * even.k) + share(even.numel),
               "dsa, dense: (2k + n)(P-1)/P");
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("sparse collectives move exactly what the specification's formulas say, at 2 to 64 ranks") {
    std::vector<int> worlds(19);
    std::iota(worlds.begin(), worlds.end(), 2);
    for (const int world : {23, 24, 31, 32, 33, 47, 48, 63, 64}) worlds.push_back(world);
    for (const int world : worlds) {
      CAPTURE(world);
      CHECK_NOTHROW(run_local(world, {.timeout_s = 60}, expect_formulas));
    }
  }
}

}  // namespace dragonn::comm::test

// SPDX-License-Identifier: MIT
// Cases of `dsa`, and of the exchange of slices that it is built on.
#include <array>

#include "comm/sparse/slices.h"
#include "core/sparse_vector.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

/// One swap of slices.
class Swap final : public RoundsOwner {
 public:
  explicit Swap(Communicator& communicator) : transport_(make_list_transport(communicator)) {}
  void run(const SwapVerb& verb) {
    std::vector<Rounds> rounds;
    rounds.push_back(swap(verb));
    run_rounds(*transport_, rounds);
  }

 private:
  Rounds swap(SwapVerb verb) { co_await verb; }
  std::unique_ptr<ListTransport> transport_;
};

void slices_reach_their_ranks(Communicator& communicator) {
  // Rank w has w entries in every second region, w + 1 in the others, each of value 100 w + the region's number.
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t me = unsigned_rank(communicator);
  const auto count = [](std::size_t from, std::size_t to) { return from + to % 2; };
  const std::size_t region_size = ranks + 1;
  Entries entries;
  std::vector<std::uint64_t> regions{0}, counts(ranks);
  for (std::size_t to = 0; to < ranks; ++to) {
    for (std::size_t i = 0; i < count(me, to); ++i) {
      entries.emplace_back(static_cast<std::uint32_t>(to * region_size + i), static_cast<float>(100 * me + to));
    }
    regions.push_back((to + 1) * region_size);
    for (std::size_t from = 0; from < ranks; ++from) counts[from] += count(from, to);
  }
  const SparseVector mine = sparse(entries);
  for (const std::size_t in_flight : {std::size_t{1}, std::size_t{3}, std::size_t{100}}) {
    Slices slices;
    slices.plan_regions(communicator.rank(), mine, mine.indices.host(), regions, counts);
    const TrafficMeter payload(communicator, Phase::kExchange);
    Swap swap(communicator);
    swap.run(slices.verb(in_flight));
    const std::span<const ListView> lists = slices.in_rank_order();
    std::size_t sent = 0, messages = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      expect(lists[rank].size() == count(rank, me), "as many entries as were sent");
      for (const float value : lists[rank].values.host()) {
        expect(value == static_cast<float>(100 * rank + me), "of that rank");
      }
      if (rank == me || counts[me] == 0) continue;
      sent += count(me, rank);
      ++messages;
    }
    expect(payload.moved().bytes_sent == coo_bytes(sent) && payload.moved().messages_sent == messages, "no more");
    expect(slices.in_rotation()[ranks - 1].size() == count((me + 1) % ranks, me), "last from the next rank");
  }
}

void slices_without_room_send_nothing(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::vector<std::uint64_t> regions(ranks + 1), none(ranks);
  const SparseVector nothing;
  Slices slices;
  slices.plan_regions(communicator.rank(), nothing, nothing.indices.host(), regions, none);
  const TrafficMeter payload(communicator, Phase::kExchange);
  Swap swap(communicator);
  swap.run(slices.verb(4));
  expect(payload.moved() == Traffic{}, "no message where none can be");
}

void dsa_example(Communicator& communicator) {
  // Section 3.3: as allgather, and dense since 2 of 4 entries are not fewer than half.
  const std::size_t me = unsigned_rank(communicator);
  std::vector<float> acc(4);
  if (me == 0) acc = {3, 0, 1, 0};
  if (me == 1) acc = {1, -2, 1, 0};
  const std::vector<float> sum{3, communicator.size() == 1 ? 0.0f : -2.0f, 0, 0};
  for (const double dense_share : {0.5, 1.0}) {
    const auto collective = make_collective("dsa", 4, {{"switch", dense_share}});
    const Outcome outcome =
        exchange(communicator, *collective, {.k = 1, .density = 0.25}, acc, largest_entries(acc, 1));
    expect(outcome.reduction.is_dense == (dense_share == 0.5 && communicator.size() > 1), "dense from half of n on");
    expect(sum_of(outcome.reduction, 4) == sum, "u = [3, -2]");
    if (me == 1) expect(residual_after(acc, outcome.reduction) == std::vector<float>{1, 0, 1, 0}, "e1");
    const SparseVector everything = largest_entries(std::vector<float>{1, 2, 3, 4}, 4);
    const Outcome full = exchange(communicator, *collective, {.k = 4, .density = 0.99}, acc, everything);
    expect(full.reduction.is_dense == (dense_share == 0.5), "a full sum is a list if it is never to be dense");
  }
}

void dsa_equals_allgather(Communicator& communicator) {
  constexpr std::size_t kNumel = 200;
  for (std::uint64_t step = 0; step < 6; ++step) {
    const std::size_t me = unsigned_rank(communicator);
    const std::vector<float> acc = integer_gradient(kNumel, step, me);
    const SparseVector selected = largest_entries(acc, me % 3 == 2 ? 0 : 5 * step + me);
    const ReduceContext context{.step = step, .k = 10, .density = 0.05};
    const auto gathered = make_collective("allgather", kNumel);
    const Outcome expected = exchange(communicator, *gathered, context, acc, selected);
    for (const double dense_share : {0.0, 1.0}) {
      const auto collective = make_collective("dsa", kNumel, {{"switch", dense_share}});
      const Outcome outcome = exchange(communicator, *collective, context, acc, selected);
      expect(outcome.reduction.is_dense == (dense_share == 0), "the form");
      expect(sum_of(outcome.reduction, kNumel) == sum_of(expected.reduction, kNumel), "the sums of allgather");
      if (dense_share > 0) {
        expect(indices_of(outcome.reduction.sum.indices.view()) == indices_of(expected.reduction.sum.indices.view()),
               "and its indices, also those whose values cancel");
      }
    }
  }
}

constexpr std::array kCases{
    Case{"slices reach their ranks, whatever is in flight", slices_reach_their_ranks},
    Case{"slices that must be empty cost no message", slices_without_room_send_nothing},
    Case{"dsa gives the sum of the specification's example", dsa_example},
    Case{"dsa gives the sum of allgather, sparse and dense", dsa_equals_allgather},
};

}  // namespace

std::span<const Case> region_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test

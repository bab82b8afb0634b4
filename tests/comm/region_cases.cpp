// SPDX-License-Identifier: MIT
// dsa, and the exchange of slices that it is built on.
#include <array>

#include "comm/sparse/slice_exchange.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

void slices_reach_their_ranks(Communicator& communicator) {
  // Rank w sends (w + d) % 4 entries to rank d, each of value 100 w + d.
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t me = unsigned_rank(communicator);
  const auto count = [](std::size_t from, std::size_t to) { return (from + to) % 4; };
  Entries entries;
  std::vector<std::size_t> bounds{0};
  std::vector<std::uint64_t> most_to(ranks, 3);
  std::vector<std::uint64_t> most_from(ranks, 3);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < count(me, rank); ++i) {
      entries.emplace_back(static_cast<std::uint32_t>(entries.size()), static_cast<float>(100 * me + rank));
    }
    bounds.push_back(entries.size());
  }
  const SparseVector mine = sparse(entries);
  for (const std::size_t in_flight : {std::size_t{1}, std::size_t{3}, std::size_t{100}}) {
    SliceExchange slices(in_flight);
    const TrafficMeter payload(communicator, Phase::kExchange);
    slices.run(communicator, view_coo(mine), {bounds, most_to, most_from});
    std::size_t sent = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const CooView list = slices.from(rank);
      expect(list.size() == count(rank, me), "as many entries as were sent");
      for (const float value : list.values) expect(value == static_cast<float>(100 * rank + me), "of that rank");
      if (rank != me) sent += count(me, rank);
    }
    expect(payload.moved().bytes_sent == coo_bytes(sent) && payload.moved().messages_sent == ranks - 1, "no more");
  }
}

void slices_without_room_send_nothing(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::vector<std::size_t> bounds(ranks + 1);
  const std::vector<std::uint64_t> none(ranks);
  SliceExchange slices(4);
  const TrafficMeter payload(communicator, Phase::kExchange);
  slices.run(communicator, {}, {bounds, none, none});
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

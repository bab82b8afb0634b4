// SPDX-License-Identifier: MIT
// The collectives that agree on indices first: index_union, cltk, exdyna.
#include <array>

#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

/// The inputs of the specification's section 3.2; ranks from 2 on have nothing to add.
std::vector<float> example_acc(std::size_t rank) {
  if (rank == 0) return {3, 0, 1, 0};
  return rank == 1 ? std::vector<float>{1, -2, 1, 0} : std::vector<float>(4, 0.0f);
}

void index_union_example(Communicator& communicator) {
  const std::vector<float> acc = example_acc(unsigned_rank(communicator));
  const auto collective = make_collective("index_union", 4);
  const Outcome outcome = exchange(communicator, *collective, {.k = 1, .density = 0.25}, acc, largest_entries(acc, 1));
  const bool alone = communicator.size() == 1;
  expect(entries_of(outcome.reduction.sum) == (alone ? Entries{{0, 3.0f}} : Entries{{0, 4.0f}, {1, -2.0f}}),
         "J = {0, 1}, u = [4, -2]");
  const std::vector<float> expected =
      unsigned_rank(communicator) < 2 ? std::vector<float>{0, 0, 1, 0} : std::vector<float>(4, 0.0f);
  expect(residual_after(acc, outcome.reduction) == expected, "e0 = e1 = [0, 0, 1, 0]");
}

void cltk_example(Communicator& communicator) {
  const std::vector<float> acc = example_acc(unsigned_rank(communicator));
  const auto collective = make_collective("cltk", 4);
  const auto at_step = [&](std::uint64_t step) {
    return exchange(communicator, *collective, {.step = step, .k = 1, .density = 0.25}, acc, largest_entries(acc, 1));
  };
  const Outcome first = at_step(0);
  const bool alone = communicator.size() == 1;
  expect(entries_of(first.reduction.sum) == Entries{{0, alone ? 3.0f : 4.0f}}, "t = 0: J = {0}, u = 4");
  if (unsigned_rank(communicator) == 0) {
    expect(residual_after(acc, first.reduction) == std::vector<float>{0, 0, 1, 0}, "e0");
  } else if (unsigned_rank(communicator) == 1) {
    expect(residual_after(acc, first.reduction) == std::vector<float>{0, -2, 1, 0}, "e1");
  }
  const Outcome second = at_step(1);
  expect(entries_of(second.reduction.sum) == (alone ? Entries{{0, 3.0f}} : Entries{{1, -2.0f}}), "t = 1: leader 1");
}

void cltk_leader_with_nothing(Communicator& communicator) {
  const bool leads = communicator.rank() == 0;
  const std::vector<float> acc(9, leads ? 0.0f : 1.0f);
  const auto collective = make_collective("cltk", acc.size());
  const Outcome outcome = exchange(communicator, *collective, {.k = 2, .density = 0.2}, acc, largest_entries(acc, 2));
  expect(outcome.reduction.sum.empty() && outcome.reduction.contributed.size() == 0, "J is empty");
}

/// Rank 0 leads, announces two indices and broadcasts others than it selected: no rank may read its acc there.
void cltk_checks_what_the_leader_sends(Communicator& communicator) {
  if (communicator.size() == 1) return;
  const std::vector<float> acc(9, 1.0f);
  for (const Indices& sent : {Indices{4, 9}, Indices{5, 5}, Indices{3, kEmptySlot}}) {
    bool is_refused = false;
    try {
      if (communicator.rank() == 0) {
        const std::array<std::uint32_t, 1> count{2};
        std::vector<std::uint32_t> counts(unsigned_size(communicator));
        communicator.allgather_values(std::span<const std::uint32_t>(count), std::span(counts));
        Indices indices = sent;
        communicator.broadcast(0, Communicator::as_writable_bytes(std::span(indices)));
        is_refused = true;
      } else {
        const auto collective = make_collective("cltk", acc.size());
        exchange(communicator, *collective, {.k = 2, .density = 0.2}, acc, largest_entries(acc, 2));
      }
    } catch (const CommError& error) {
      is_refused = contains(error.what(), "in cltk, receiving from rank ") && contains(error.what(), "rank 0");
    }
    expect(is_refused, "indices that are not of the bucket are refused");
  }
}

void exdyna_pads_and_sums_all_of_acc(Communicator& communicator) {
  // Rank w selects w % 3 entries of its own ten elements; all of acc at the selected indices leaves every rank.
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t me = unsigned_rank(communicator);
  const std::vector<float> acc = integer_gradient(10 * ranks, 1, me);
  const auto chosen = [](std::size_t rank) {
    Indices indices;
    for (std::size_t i = 0; i < rank % 3; ++i) indices.push_back(static_cast<std::uint32_t>(10 * rank + 4 * i));
    return indices;
  };
  std::map<std::uint32_t, float> sum;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const std::uint32_t index : chosen(rank)) {
      for (std::size_t other = 0; other < ranks; ++other) sum[index] += integer_gradient(10 * ranks, 1, other)[index];
    }
  }
  const auto collective = make_collective("exdyna", acc.size());
  const ReduceContext context{.k = 2, .density = 0.1, .selection = {.partitioned = true}};
  const Outcome outcome = exchange(communicator, *collective, context, acc, entries_at(acc, chosen(me)));
  expect(entries_of(outcome.reduction.sum) == Entries(sum.begin(), sum.end()), "the sum of acc at J");
  expect(outcome.reduction.contributed.size() == sum.size(), "C = J on every rank");
  std::vector<float> values(sum.size());
  const TrafficMeter meter(communicator, Phase::kControl);
  communicator.allreduce_sum(View<float>(std::span<float>(values)));
  const std::size_t largest = std::min<std::size_t>(ranks - 1, 2);
  expect(outcome.payload.bytes_sent == 4 * largest * (ranks - 1) + meter.moved().bytes_sent,
         "m_t (P-1) index words, and the values");
  expect(outcome.header.bytes_sent == 4 * (ranks - 1), "P-1 words of header");
}

constexpr std::array kCases{
    Case{"index_union gives the sum of the specification's example", index_union_example},
    Case{"cltk gives the sums of the specification's example", cltk_example},
    Case{"exdyna pads its indices and sums all of acc there", exdyna_pads_and_sums_all_of_acc},
    Case{"cltk exchanges nothing when its leader has nothing", cltk_leader_with_nothing},
    Case{"cltk refuses indices of its leader that do not ascend in the bucket", cltk_checks_what_the_leader_sends},
};

}  // namespace

std::span<const Case> agreed_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test

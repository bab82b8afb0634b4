// SPDX-License-Identifier: MIT
#include <array>

#include "comm/blocks.h"
#include "comm/sparse/slices.h"
#include "core/sparse_vector.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

/// Specification, section 3.5: n = 8, k = 2, the first step. Ranks from 2 on have nothing to add. Regions of equal size
/// are those of the example.
void example_with(Communicator& communicator, std::int64_t repartition_period) {
  if (communicator.size() == 1) return;
  const std::size_t me = unsigned_rank(communicator);
  std::vector<float> acc(8);
  if (me == 0) acc = {4, 0, 0, 3, 0, 0, 0, 1};
  if (me == 1) acc = {1, 0, 2, 0, 0, 5, 0, 0};
  const auto collective = make_collective("oktopk", 8, {{"repartition_period", repartition_period}});
  const Outcome outcome = exchange(communicator, *collective, {.k = 2, .density = 0.25}, acc, largest_entries(acc, 2));
  expect(entries_of(outcome.reduction.sum) == Entries{{0, 4.0f}, {5, 5.0f}}, "J = {0, 5}, u = {4, 5}");
  const std::vector<float> residual = residual_after(acc, outcome.reduction);
  if (me == 0) expect(residual == std::vector<float>{0, 0, 0, 3, 0, 0, 0, 1}, "e0");
  if (me == 1) expect(residual == std::vector<float>{1, 0, 2, 0, 0, 0, 0, 0}, "e1");
  if (communicator.size() > 2) return;
  // The boundary is floor((3 + 5) / 2) = 4: rank 1 sends one entry, rank 0 none; then all sums, {0, 2, 3} and {5}.
  const std::size_t split = me == 0 ? 0 : 1;
  expect(outcome.payload.bytes_sent == coo_bytes(split + (me == 0 ? 3 : 1)), "one entry to its region, and the sums");
}

void example(Communicator& communicator) {
  example_with(communicator, 64);
}

void example_with_equal_regions(Communicator& communicator) {
  example_with(communicator, 0);
}

/// A step that computes the threshold finds the k largest sums; the steps after it find the sums that reach the k-th of
/// these.
void steps_between_reuse_the_threshold(Communicator& communicator) {
  constexpr std::size_t kNumel = 90;
  constexpr std::size_t kTarget = 6;
  const std::size_t me = unsigned_rank(communicator);
  const auto collective =
      make_collective("oktopk", kNumel, {{"global_period", 4}, {"repartition_period", 3}, {"drift", "off"}});
  float threshold = 0;
  for (std::uint64_t step = 0; step < 9; ++step) {
    std::vector<float> total(kNumel);
    for (std::size_t rank = 0; rank < unsigned_size(communicator); ++rank) {
      const SparseVector selected = largest_entries(integer_gradient(kNumel, step, rank), 8);
      for (const auto& [index, value] : entries_of(selected)) total[index] += value;
    }
    SparseVector expected = largest_entries(total, step % 4 == 0 ? kTarget : kNumel);
    if (step % 4 == 0) {
      threshold = std::ranges::min(expected.values.host(), {}, [](float value) { return std::abs(value); });
      threshold = std::abs(threshold);
    } else {
      Entries kept;
      for (const auto& entry : entries_of(expected)) {
        if (std::abs(entry.second) >= threshold) kept.push_back(entry);
      }
      expected = sparse(kept);
    }
    const std::vector<float> acc = integer_gradient(kNumel, step, me);
    const Outcome outcome =
        exchange(communicator, *collective, {.step = step, .k = kTarget}, acc, largest_entries(acc, 8));
    expect(entries_of(outcome.reduction.sum) == entries_of(expected), "the sums that reach the threshold");
  }
}

void cancelled_sums_stay(Communicator& communicator) {
  // Ranks 0 and 1 cancel each other at index 3; index 7 is rank 0's alone.
  if (communicator.size() == 1) return;
  const std::size_t me = unsigned_rank(communicator);
  std::vector<float> acc(9);
  if (me == 0) acc[3] = 5, acc[7] = 1;
  if (me == 1) acc[3] = -5;
  const auto collective = make_collective("oktopk", 9);
  const Outcome outcome = exchange(communicator, *collective, {.k = 2}, acc, largest_entries(acc, 2));
  expect(entries_of(outcome.reduction.sum) == Entries{{7, 1.0f}}, "a sum of zero is not in J");
  expect(residual_after(acc, outcome.reduction)[3] == acc[3], "and what was selected there stays");
}

void all_zeros_change_nothing(Communicator& communicator) {
  constexpr std::size_t kNumel = 40;
  const std::size_t me = unsigned_rank(communicator);
  const Overrides settings{{"global_period", 1000}};
  const auto undisturbed = make_collective("oktopk", kNumel, settings);
  const auto disturbed = make_collective("oktopk", kNumel, settings);
  const std::vector<float> zeros(kNumel);
  for (std::uint64_t step = 0; step < 5; ++step) {
    const std::vector<float> acc = integer_gradient(kNumel, step, me);
    const ReduceContext context{.step = step, .k = 4};
    const Outcome expected = exchange(communicator, *undisturbed, context, acc, largest_entries(acc, 4));
    const Outcome outcome = exchange(communicator, *disturbed, context, acc, largest_entries(acc, 4));
    expect(entries_of(outcome.reduction.sum) == entries_of(expected.reduction.sum), "as if nothing had been");
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Outcome nothing = exchange(communicator, *disturbed, {.step = 7, .k = 4}, zeros, SparseVector());
      expect(nothing.reduction.sum.empty(), "nothing of nothing");
    }
  }
}

/// A step without sums to compute the threshold from leaves the computation to the next step, also of an object that
/// was restored in between; it does not wait for another period.
void computation_waits_for_sums(Communicator& communicator) {
  constexpr std::size_t kNumel = 40;
  const Overrides settings{{"global_period", 10}, {"drift", "off"}};
  const auto first = make_collective("oktopk", kNumel, settings);
  const auto restored = make_collective("oktopk", kNumel, settings);
  const auto sum_of_step = [&](SparseCollective& collective, std::uint64_t step, float scale) {
    std::vector<float> acc(kNumel);
    for (std::size_t i = 0; i < 8; ++i) acc[5 * i] = scale * static_cast<float>(i + 1);
    const std::size_t chosen = scale == 0 ? 0 : 8;
    const Outcome outcome =
        exchange(communicator, collective, {.step = step, .k = 3}, acc, largest_entries(acc, chosen));
    return indices_of(outcome.reduction.sum.indices.view());
  };
  const Indices largest{25, 30, 35};
  expect(sum_of_step(*first, 0, 1) == largest, "the threshold is that of 6, 7, 8");
  expect(sum_of_step(*first, 9, 2).size() == 6, "of doubled values six reach it");
  expect(sum_of_step(*first, 10, 0).empty(), "a period is over, but there is nothing");
  Archive archive;
  first->save(archive, "");
  restored->load(archive, "");
  for (SparseCollective* collective : {first.get(), restored.get()}) {
    expect(sum_of_step(*collective, 11, 2) == largest, "computed by the step behind");
    expect(sum_of_step(*collective, 12, 2) == largest, "and used again from there on");
  }
}

void restored_goes_on(Communicator& communicator) {
  constexpr std::size_t kNumel = 70;
  const std::size_t me = unsigned_rank(communicator);
  const auto whole = make_collective("oktopk", kNumel);
  const auto rest = make_collective("oktopk", kNumel);
  for (std::uint64_t step = 0; step < 8; ++step) {
    const std::vector<float> acc = integer_gradient(kNumel, step, me);
    const ReduceContext context{.step = step, .k = 5};
    if (step == 4) {
      Archive archive;
      whole->save(archive, "collective/");
      rest->load(archive, "collective/");
    }
    const Outcome expected = exchange(communicator, *whole, context, acc, largest_entries(acc, 5));
    if (step < 4) continue;
    const Outcome outcome = exchange(communicator, *rest, context, acc, largest_entries(acc, 5));
    expect(
        entries_of(outcome.reduction.sum) == entries_of(expected.reduction.sum) && outcome.payload == expected.payload,
        "the sums and the traffic of a run that was not interrupted");
  }
}

/// The cut into blocks, and the gather after it.
class Balancing final : public RoundsOwner {
 public:
  explicit Balancing(Communicator& communicator)
      : rank_(communicator.rank()),
        lists_(unsigned_size(communicator)),
        transport_(make_list_transport(communicator)) {}
  /// @param counts by rank: the entries of its list, and the elements of its region.
  SparseVector run(const SparseVector& mine, std::span<const std::uint64_t> counts) {
    SparseVector all;
    std::vector<Rounds> rounds;
    regions_.assign(1, 0);
    for (const std::uint64_t count : counts) regions_.push_back(regions_.back() + count);
    rounds.push_back(balance(mine, counts));
    run_rounds(*transport_, rounds);
    concatenate(lists_, all);
    return all;
  }

 private:
  Rounds balance(const SparseVector& mine, std::span<const std::uint64_t> counts) {
    slices_.plan_blocks(rank_, mine, regions_, counts, balanced_counts_);
    co_await slices_.verb(2);
    concatenate(slices_.in_rank_order(), balanced_);
    co_await GatherListsVerb{.mine = balanced_, .slots = balanced_counts_, .lists = lists_, .numel = regions_.back()};
  }

  int rank_;
  Slices slices_;
  SparseVector balanced_;
  std::vector<std::uint64_t> regions_, balanced_counts_;
  std::vector<ListView> lists_;
  std::unique_ptr<ListTransport> transport_;
};

void balancing_keeps_the_order(Communicator& communicator) {
  // All entries are with one rank, or rank w has w of them.
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t me = unsigned_rank(communicator);
  const std::size_t last = ranks - 1;
  for (const bool one_has_all : {true, false}) {
    std::vector<std::uint64_t> counts;
    Entries all, mine;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      counts.push_back(one_has_all ? (rank == last ? 3 * ranks + 1 : 0) : rank);
      for (std::size_t i = 0; i < counts.back(); ++i) {
        all.emplace_back(static_cast<std::uint32_t>(all.size()), static_cast<float>(rank));
        if (rank == me) mine.push_back(all.back());
      }
    }
    Balancing balancing(communicator);
    const TrafficMeter payload(communicator, Phase::kExchange);
    expect(entries_of(balancing.run(sparse(mine), counts)) == all, "the lists in rank order");
    if (ranks == 1 || !one_has_all) continue;
    const auto block_of = [&](std::size_t rank) { return block(all.size(), ranks, rank % ranks).size(); };
    const std::size_t moved = me == last ? all.size() - block_of(last) : 0;
    expect(payload.moved().bytes_sent == coo_bytes(moved + all.size() - block_of(me + 1)),
           "its own surplus once, then all blocks but the next rank's");
  }
}

constexpr std::array kCases{
    Case{"oktopk gives the sums and residuals of the specification's example", example},
    Case{"oktopk with regions that stay equal gives those of the example, too", example_with_equal_regions},
    Case{"oktopk's steps between two computations use the threshold of the last one",
         steps_between_reuse_the_threshold},
    Case{"oktopk leaves what cancels with its ranks", cancelled_sums_stay},
    Case{"oktopk learns nothing from zeros", all_zeros_change_nothing},
    Case{"oktopk computes in the next step what it could not for want of sums", computation_waits_for_sums},
    Case{"oktopk restored in mid-run goes on as if it had not stopped", restored_goes_on},
    Case{"balancing keeps the order of the entries, and moves no more than the surplus", balancing_keeps_the_order},
};

}  // namespace

std::span<const Case> oktopk_cases() {
  return kCases;
}

}  // namespace dragonn::comm::test

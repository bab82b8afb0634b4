// SPDX-License-Identifier: MIT
/// Tests of the words that oktopk moves: in the long run, and at the extremes.
#include <cmath>

#include <doctest/doctest.h>

#include "comm/blocks.h"
#include "comm/local/local.h"
#include "core/rng.h"
#include "core/sparse_vector.h"
#include "tests/comm/cases.h"
#include "tests/comm/sparse_support.h"

namespace dragonn::comm::test {
namespace {

constexpr std::uint64_t kPeriod = 8;  // shorter than the default, so that ten of them are soon over

/// Gradients as in training: coordinates differ in scale by orders of magnitude, ranks agree in part, and the scale
/// falls slowly.
std::vector<float> training_like(std::size_t numel, std::uint64_t step, std::size_t rank) {
  Rng scales(5, "scales"), common(5, "common", {step}), own(5, "own", {step, rank});
  std::vector<float> gradient(numel);
  for (float& value : gradient) {
    const float scale = std::exp(2.0f * scales.normal()) / (1.0f + 0.01f * static_cast<float>(step));
    value = scale * (0.5f * common.normal() + own.normal());
  }
  return gradient;
}

/// No rank sends or receives more than 6k(P-1)/P words in a step that reuses the threshold, after ten periods.
void bound_holds(Communicator& communicator) {
  constexpr std::size_t kNumel = 2048;
  constexpr std::size_t kTarget = 64;
  const auto period = static_cast<std::int64_t>(kPeriod);
  FeedbackRank rank(communicator, "oktopk", {{"global_period", period}, {"repartition_period", 2 * period}}, kNumel);
  const auto select = [](std::span<const float> acc, std::size_t k) { return largest_entries(acc, k); };
  const std::size_t ranks = unsigned_size(communicator);
  for (std::uint64_t step = 0; step < 13 * kPeriod; ++step) {
    const Outcome outcome = rank.step({.step = step, .k = kTarget, .density = 1.0 / 32},
                                      training_like(kNumel, step, unsigned_rank(communicator)), select, false);
    if (step < 10 * kPeriod || step % kPeriod == 0) continue;
    const SparseReduction& out = outcome.reduction;
    const std::size_t k = std::max<std::size_t>(std::ranges::max(out.statistics.selected_counts), out.sum.size());
    const double words = 6.0 * static_cast<double>(k * (ranks - 1)) / static_cast<double>(ranks);
    expect(static_cast<double>(outcome.payload.bytes_sent) <= 4 * words, "6k(P-1)/P words sent at most");
    expect(static_cast<double>(outcome.payload.bytes_received) <= 4 * words, "and received");
    expect(out.sum.size() * 4 > kTarget && out.sum.size() < 4 * kTarget, "about k entries, by the drift's control");
  }
}

/// The same k entries on all ranks, spread evenly at first; then all in the region of the last rank.
void extremes_are_as_counted(Communicator& communicator) {
  const std::size_t ranks = unsigned_size(communicator);
  const std::size_t me = unsigned_rank(communicator);
  const std::size_t last = ranks - 1;
  const std::size_t k = 2 * ranks;
  const std::size_t region = 4 * ranks;
  const auto collective = make_collective("oktopk", ranks * region);
  const auto step = [&](std::uint64_t number, auto index_of) {
    Indices indices;
    for (std::size_t i = 0; i < k; ++i) indices.push_back(static_cast<std::uint32_t>(index_of(i)));
    const std::vector<float> acc(ranks * region, 1.0f);
    return exchange(communicator, *collective, {.step = number, .k = k}, acc, entries_at(acc, indices));
  };
  const auto spread = [&](std::size_t i) { return i / 2 * region + i % 2; };
  step(0, spread);  // chooses the regions [r region, (r + 1) region) and the threshold P
  const Outcome even = step(1, spread);
  expect(even.payload.bytes_sent == coo_bytes(2 * k * last / ranks) &&
             even.payload.bytes_received == even.payload.bytes_sent,
         "evenly spread: 2k(P-1)/P words to the owners, 2k(P-1)/P to all");

  const Outcome skewed = step(2, [&](std::size_t i) { return last * region + i; });
  const bool balances = ranks > 2;
  const auto block_of = [&](std::size_t rank) { return block(k, ranks, rank % ranks).size(); };
  const std::size_t to_owner = me == last ? 0 : k;
  const std::size_t surplus = balances && me == last ? k - block_of(last) : 0;
  const std::size_t next = balances ? block_of(me + 1) : ((me + 1) % ranks == last ? k : 0);
  expect(skewed.payload.bytes_sent == coo_bytes(to_owner + surplus + k - next), "one region: as counted by hand");
  const std::size_t from_ranks = me == last ? k * last : 0;
  const std::size_t share = balances && me != last ? block_of(me) : 0;
  const std::size_t own = balances ? block_of(me) : (me == last ? k : 0);
  expect(skewed.payload.bytes_received == coo_bytes(from_ranks + share + k - own), "2k(P-1) words for the owner alone");
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("oktopk moves at most 6k(P-1)/P words per rank once its thresholds have settled") {
    for (const int world : {2, 4, 5, 8, 16}) {
      CAPTURE(world);
      CHECK_NOTHROW(run_local(world, {.timeout_s = 60}, bound_holds));
    }
  }

  TEST_CASE("oktopk moves what the formulas say at the extremes") {
    for (const int world : {2, 3, 4, 5, 8, 16, 33, 64}) {
      CAPTURE(world);
      CHECK_NOTHROW(run_local(world, {.timeout_s = 60}, extremes_are_as_counted));
    }
  }
}

}  // namespace dragonn::comm::test

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>
#include <omp.h>

#include "core/rng.h"
#include "kernels/gradient/hash_select.h"
#include "kernels/gradient/select.h"
#include "tests/compress/support.h"
#include "tests/support/thread_counts.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;
using kernels::HashRule;
using kernels::HashScratch;
using kernels::SlotClaims;

namespace {

/// Hits whose values are their places in the list.
SparseVector hits_at(const std::vector<std::uint32_t>& indices) {
  SparseVector hits;
  hits.resize_discard(indices.size());
  std::ranges::copy(indices, hits.indices.data());
  std::iota(hits.values.data(), hits.values.data() + indices.size(), 0.0f);
  return hits;
}

/// The indices that a table of Algorithm 1 holds once every hit was written to its slot in turn; by priority a hit with
/// a smaller key is not.
std::vector<std::uint32_t> winners(const std::vector<std::uint32_t>& hits, const HashRule& rule) {
  const kernels::SlotPriority priority{rule.slot.salt};
  std::vector<std::uint32_t> table(rule.slot.slots, kEmptySlot);
  for (const std::uint32_t index : hits) {
    std::uint32_t& holder = table[rule.slot(index)];
    if (holder == kEmptySlot || !rule.by_priority || priority(index) > priority(holder)) holder = index;
  }
  std::erase(table, kEmptySlot);
  std::ranges::sort(table);
  return table;
}

std::vector<float> normals(std::size_t size) {
  Rng rng(1, "dragonn test");
  std::vector<float> acc(size);
  for (float& value : acc) value = rng.normal();
  return acc;
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("the last hit of a slot stays, the others wait in the residual, and an empty slot clears nothing") {
    const std::vector<float> acc{.5f, 2, 0, -3, 1, -1.5f, 0, .2f};
    SparseVector hits, kept;
    kernels::select_threshold(view(acc), 1.0f, hits);
    SlotClaims claims;
    claims.keep_last(
        hits, 4, [](std::uint32_t index) { return std::size_t{index % 4}; }, kept);
    CHECK(entries(kept) == Entries{{3, -3.0f}, {4, 1.0f}, {5, -1.5f}});

    // The residual: index 1 lost its slot to 5, and the empty slot must not clear index 0.
    const auto memory = make_memory("residual", acc.size());
    memory->compensate({}, view(acc), 1.0f);
    memory->settle({.contributed = kept.indices.view()});
    CHECK(values(memory->residual()) == std::vector<float>{.5f, 2, 0, 0, 0, 0, 0, .2f});
  }

  TEST_CASE("however many threads hash, what stays is what the table of Algorithm 1 holds, by either rule") {
    constexpr std::size_t kHits = 150000;
    std::vector<std::uint32_t> indices(kHits);
    for (std::size_t hit = 0; hit < kHits; ++hit) indices[hit] = static_cast<std::uint32_t>(3 * hit);
    const SparseVector hits = hits_at(indices);
    HashScratch scratch;
    SparseVector kept;
    const int threads_before = omp_get_max_threads();
    for (const std::size_t slots : {1ul, 64ul, 100001ul, 20 * kHits}) {
      for (const bool by_priority : {false, true}) {
        const HashRule rule{.slot = {mix64(5), slots}, .by_priority = by_priority};
        const std::vector<std::uint32_t> expected = winners(indices, rule);
        for (const int threads : dragonn::test::kThreadCounts) {
          omp_set_num_threads(threads);
          kernels::hash_select(hits, {rule, &scratch}, kept);
          CHECK(dragonn::compress::test::indices(kept) == expected);
          CHECK(kept.values.data()[kept.size() - 1] == static_cast<float>(expected.back() / 3));
        }
      }
    }
    omp_set_num_threads(threads_before);
  }

  TEST_CASE("1024 hits fill 600 to 695 of 1024 slots, whether random, neighbours or strided") {
    std::vector<std::uint32_t> neighbours(1024), strided(1024), random;
    std::iota(neighbours.begin(), neighbours.end(), 0u);
    for (std::uint32_t i = 0; i < 1024; ++i) strided[i] = 1000 * i;
    Rng rng(3, "slot test");
    for (int i = 0; i < 1024; ++i) random.push_back(static_cast<std::uint32_t>(rng.below(1u << 30)));
    std::ranges::sort(random);
    HashScratch scratch;
    SparseVector kept;
    for (const auto& indices : {neighbours, strided, random}) {
      const SparseVector hits = hits_at(indices);
      for (std::uint64_t salt = 0; salt < 100; ++salt) {
        kernels::hash_select(hits, {{.slot = {mix64(salt), 1024}}, &scratch}, kept);
        CHECK(kept.size() >= 600);
        CHECK(kept.size() <= 695);
      }
    }
  }

  TEST_CASE("collision = priority favours no index for its place, last favours the larger") {
    std::vector<std::uint32_t> indices(1000);
    std::iota(indices.begin(), indices.end(), 0u);
    const SparseVector hits = hits_at(indices);
    HashScratch scratch;
    SparseVector kept;
    constexpr int kSalts = 200;
    const auto kept_low = [&](bool by_priority) {
      std::ptrdiff_t low = 0;
      for (std::uint64_t salt = 0; salt < kSalts; ++salt) {
        kernels::hash_select(hits, {{.slot = {mix64(salt), 1000}, .by_priority = by_priority}, &scratch}, kept);
        low += std::ranges::count_if(kept.indices.host(), [](std::uint32_t index) { return index < 500; });
      }
      return static_cast<double>(low) / kSalts;
    };
    // Expected survivors among the lower half: 0.5 e^-0.5 (1 - e^-0.5) / 0.5 = 239 of 1000, against half of 632.
    CHECK(kept_low(false) == doctest::Approx(239).epsilon(0.03));
    CHECK(kept_low(true) == doctest::Approx(316).epsilon(0.03));
  }

  TEST_CASE(
      "dragonn fills about 63 of 100 of k slots with k hits, 86 with twice as many, and with 8 k slots keeps 94 of 100 "
      "hits") {
    const std::vector<float> acc = normals(1 << 20);
    const auto context = context_for(acc.size(), 0.01);
    const auto k = static_cast<double>(context.k);
    // 1 % of the sample: about 105 entries above the threshold, so 10 % standard deviation of the hits.
    CHECK(static_cast<double>(select_once("dragonn", acc, context, {{"slots", 1.0}}).size()) / k ==
          doctest::Approx(0.632).epsilon(0.2));
    CHECK(static_cast<double>(select_once("dragonn", acc, context, {{"slots", 1.0}, {"oversample", 2.0}}).size()) / k ==
          doctest::Approx(0.865).epsilon(0.1));
    CHECK(static_cast<double>(select_once("dragonn", acc, context).size()) / k == doctest::Approx(0.94).epsilon(0.25));
    CHECK(static_cast<double>(select_once("dragonn", acc, context, {{"slots", 4.0}}).size()) / k ==
          doctest::Approx(0.885).epsilon(0.25));
  }

  TEST_CASE("dragonn never selects more than its slots, and one entry with one slot") {
    const std::vector<float> acc = normals(5000);
    CHECK(select_once("dragonn", acc, context_for(5000, 0.5), {{"slots", 1.9}}).size() < 2500);
    CHECK(select_once("dragonn", acc, context_for(5000, 0.0001), {{"slots", 1.0}, {"oversample", 100.0}}).size() == 1);
    CHECK(select_once("dragonn", std::vector<float>(5000, 0.0f), context_for(5000, 0.01)).empty());
  }

  TEST_CASE("dragonn hashes nothing where elements are not more than slots") {
    std::vector<float> acc = normals(5000);
    acc[17] = 0;
    for (const double slots : {2.0, 64.0}) {
      const Entries selected = select_once("dragonn", acc, context_for(5000, 0.5), {{"slots", slots}});
      const auto magnitude = [](const auto& entry) { return std::abs(entry.second); };
      SparseVector hits;
      kernels::select_threshold(view(acc), magnitude(std::ranges::min(selected, {}, magnitude)), hits);
      CHECK(selected == entries(hits));
      CHECK(static_cast<double>(selected.size()) == doctest::Approx(2500).epsilon(0.2));
    }
    CHECK(select_once("dragonn", acc, context_for(5000, 1.0)).size() == 4999);
  }

  TEST_CASE("dragonn hashes anew at every step: two entries do not collide for ever") {
    std::vector<float> acc(1000, 0.0f);
    acc[10] = 1;
    acc[11] = 2;
    SelectContext context = context_for(acc.size(), 0.002);  // two slots
    int both = 0;
    for (context.step = 0; context.step < 64; ++context.step) {
      if (select_once("dragonn", acc, context, {{"slots", 1.0}}).size() == 2) ++both;
    }
    CHECK(both > 16);
    CHECK(both < 48);
  }
}

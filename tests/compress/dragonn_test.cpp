// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>
#include <omp.h>

#include "core/rng.h"
#include "kernels/select.h"
#include "kernels/slot_table.h"
#include "tests/compress/support.h"
#include "tests/support/thread_counts.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;
using kernels::KeyedSlot;
using kernels::LastWins;
using kernels::PriorityWins;
using kernels::SlotTable;

namespace {

std::size_t filled(const SlotTable& table) {
  return static_cast<std::size_t>(
      std::ranges::count_if(table.slots(), [](std::uint32_t index) { return index != kEmptySlot; }));
}

std::vector<float> normals(std::size_t size) {
  Rng rng(1, "dragonn test");
  std::vector<float> acc(size);
  for (float& value : acc) value = rng.normal();
  return acc;
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("the slot table keeps the last writer and leaves empty slots empty") {
    const std::vector<float> acc{.5f, 2, 0, -3, 1, -1.5f, 0, .2f};
    SparseVector hits, kept;
    kernels::select_threshold(view(acc), 1.0f, hits);
    const auto slot_of = [](std::uint32_t index) { return std::size_t{index % 4}; };
    SlotTable table;
    table.fill(hits.indices.host(), 4, slot_of, LastWins{});
    const std::vector<std::uint32_t> expected{4, 5, kEmptySlot, 3};
    CHECK(std::ranges::equal(table.slots(), expected));
    table.collect(hits, slot_of, kept);
    CHECK(entries(kept) == Entries{{3, -3.0f}, {4, 1.0f}, {5, -1.5f}});

    // The residual: index 1 lost its slot to 5, and the empty slot must not clear index 0.
    const auto memory = make_memory("residual", acc.size());
    memory->compensate({}, view(acc), 1.0f);
    memory->settle({.contributed = kept.indices.view()});
    CHECK(values(memory->residual()) == std::vector<float>{.5f, 2, 0, 0, 0, 0, 0, .2f});
  }

  TEST_CASE("however many threads collect, the slot table keeps what it holds, by either rule") {
    constexpr std::size_t kHits = 150000, kSlots = 100001;
    SparseVector hits, kept;
    hits.resize_discard(kHits);
    for (std::size_t hit = 0; hit < kHits; ++hit) {
      hits.indices.data()[hit] = static_cast<std::uint32_t>(3 * hit);
      hits.values.data()[hit] = static_cast<float>(hit);
    }
    const KeyedSlot slot_of{mix64(5), kSlots};
    const auto check = [&](const auto& wins) {
      std::vector<std::uint32_t> table(kSlots, kEmptySlot);
      for (const std::uint32_t index : hits.indices.host()) {
        std::uint32_t& holder = table[slot_of(index)];
        if (holder == kEmptySlot || wins(holder, index)) holder = index;
      }
      std::vector<std::uint32_t> winners = table;
      std::erase(winners, kEmptySlot);
      std::ranges::sort(winners);
      SlotTable slots;
      slots.fill(hits.indices.host(), kSlots, slot_of, wins);
      CHECK(std::ranges::equal(slots.slots(), table));
      slots.collect(hits, slot_of, kept);
      CHECK(indices(kept) == winners);
      CHECK(kept.values.data()[kept.size() - 1] == static_cast<float>(winners.back() / 3));
    };
    const int threads_before = omp_get_max_threads();
    for (const int threads : dragonn::test::kThreadCounts) {
      omp_set_num_threads(threads);
      check(LastWins{});
      check(PriorityWins{6});
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
    SlotTable table;
    for (const auto& hits : {neighbours, strided, random}) {
      for (std::uint64_t salt = 0; salt < 100; ++salt) {
        table.fill(hits, 1024, KeyedSlot{mix64(salt), 1024}, LastWins{});
        CHECK(filled(table) >= 600);
        CHECK(filled(table) <= 695);
      }
    }
  }

  TEST_CASE("collision = priority favours no index for its place, last favours the larger") {
    std::vector<std::uint32_t> hits(1000);
    std::iota(hits.begin(), hits.end(), 0u);
    SlotTable table;
    int low_last = 0, low_priority = 0;
    constexpr int kSalts = 200;
    for (std::uint64_t salt = 0; salt < kSalts; ++salt) {
      const KeyedSlot slot{mix64(salt), 1000};
      const auto kept_low = [&] {
        return std::ranges::count_if(table.slots(), [](std::uint32_t index) { return index < 500; });
      };
      table.fill(hits, 1000, slot, LastWins{});
      low_last += static_cast<int>(kept_low());
      table.fill(hits, 1000, slot, PriorityWins{slot.salt});
      low_priority += static_cast<int>(kept_low());
    }
    // Expected survivors among the lower half: 0.5 e^-0.5 (1 - e^-0.5) / 0.5 = 239 of 1000, against half of 632.
    CHECK(low_last / kSalts == doctest::Approx(239).epsilon(0.03));
    CHECK(low_priority / kSalts == doctest::Approx(316).epsilon(0.03));
  }

  TEST_CASE("dragonn fills about 63 of 100 slots with k hits, 86 with twice as many") {
    const std::vector<float> acc = normals(1 << 20);
    const auto context = context_for(acc.size(), 0.01);
    const auto k = static_cast<double>(context.k);
    // 1 % of the sample: about 105 entries above the threshold, so 10 % standard deviation of the hits.
    CHECK(static_cast<double>(select_once("dragonn", acc, context).size()) / k == doctest::Approx(0.632).epsilon(0.2));
    CHECK(static_cast<double>(select_once("dragonn", acc, context, {{"oversample", 2.0}}).size()) / k ==
          doctest::Approx(0.865).epsilon(0.1));
    CHECK(static_cast<double>(select_once("dragonn", acc, context, {{"memory", 4.0}}).size()) / k ==
          doctest::Approx(0.885).epsilon(0.25));
  }

  TEST_CASE("dragonn never selects more than its slots, and one entry with one slot") {
    const std::vector<float> acc = normals(5000);
    CHECK(select_once("dragonn", acc, context_for(5000, 1.0)).size() < 5000);
    CHECK(select_once("dragonn", acc, context_for(5000, 0.0001), {{"oversample", 100.0}}).size() == 1);
    CHECK(select_once("dragonn", std::vector<float>(5000, 0.0f), context_for(5000, 0.01)).empty());
  }

  TEST_CASE("dragonn hashes anew at every step: two entries do not collide for ever") {
    std::vector<float> acc(1000, 0.0f);
    acc[10] = 1;
    acc[11] = 2;
    SelectContext context = context_for(acc.size(), 0.002);  // two slots
    int both = 0;
    for (context.step = 0; context.step < 64; ++context.step) {
      if (select_once("dragonn", acc, context).size() == 2) ++both;
    }
    CHECK(both > 16);
    CHECK(both < 48);
  }
}

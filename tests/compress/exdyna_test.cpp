// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>

#include "compress/exdyna_partition.h"
#include "core/rng.h"
#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

using Numbers = std::vector<std::uint64_t>;
using Vector = std::vector<float>;

Numbers numbers(std::span<const std::uint64_t> values) {
  return {values.begin(), values.end()};
}

SelectContext context_of(std::size_t k, std::uint64_t step, int rank = 0, int ranks = 1) {
  return {.step = step, .rank = rank, .world_size = ranks, .density = 0.1, .k = k};
}

void observe_counts(Sparsifier& method, std::size_t numel, std::size_t k, std::uint64_t step, const Numbers& counts) {
  method.observe({.step = step, .numel = numel, .k = k, .selected_counts = counts, .global_count = 0});
}

/// The threshold of step 1 for k = 100, after `selected` entries in step 0.
float threshold_after(std::uint64_t selected, const Overrides& overrides = {}) {
  const auto method = make_sparsifier("exdyna", 10000, overrides);
  CHECK(method->plan(context_of(100, 0)).threshold == 0.05f);  // 1 / (2 sqrt(100))
  observe_counts(*method, 10000, 100, 0, {selected});
  return method->plan(context_of(100, 1)).threshold;
}

Vector normals(std::size_t size, std::uint64_t seed) {
  Rng rng(seed, "exdyna test");
  Vector acc(size);
  for (float& value : acc) value = rng.normal();
  return acc;
}

constexpr ExdynaPartitionRules kRules{.blocks = 1024, .block_move = 1, .alpha = 1.05};

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("exdyna's partitions are whole blocks, the last one with the remainder") {
    const ExdynaPartition partition({.blocks = 8, .block_move = 1, .alpha = 1.05}, 261, 3);
    CHECK(partition.block_size() == 32);
    CHECK(numbers(partition.lengths()) == Numbers{3, 3, 2});
    CHECK(numbers(partition.positions()) == Numbers{0, 3, 6});
    const std::array<std::size_t, 4> cuts{0, 96, 192, 261};
    for (std::size_t p = 0; p < 3; ++p) {
      CHECK(partition.range(p).begin == cuts[p]);
      CHECK(partition.range(p).end == cuts[p + 1]);
    }
  }

  TEST_CASE("exdyna moves a block from a partition with many entries to a neighbour with few") {
    ExdynaPartition partition({.blocks = 8, .block_move = 1, .alpha = 1.05}, 261, 3);
    partition.adjust(Numbers{30, 10, 20}, 0);
    CHECK(numbers(partition.lengths()) == Numbers{2, 4, 2});
    CHECK(numbers(partition.positions()) == Numbers{0, 2, 6});
    for (std::size_t rank = 0; rank < 3; ++rank) CHECK(partition.partition_of(rank, 1) == (rank + 1) % 3);
  }

  TEST_CASE("exdyna knows whose counts belong to which partition") {
    ExdynaPartition partition({.blocks = 8, .block_move = 1, .alpha = 1.05}, 261, 3);
    partition.adjust(Numbers{20, 30, 10}, 5);  // rank 1 had partition (5 + 1) mod 3 = 0
    CHECK(numbers(partition.lengths()) == Numbers{2, 4, 2});
    ExdynaPartition other({.blocks = 8, .block_move = 1, .alpha = 1.05}, 261, 3);
    other.adjust(Numbers{10, 30, 20}, 0);  // few on the left: the cut moves to the right
    CHECK(numbers(other.lengths()) == Numbers{4, 2, 2});
    CHECK(numbers(other.positions()) == Numbers{0, 4, 6});
  }

  TEST_CASE("exdyna leaves every partition a quarter of its fair share of blocks, and balanced ones as they are") {
    ExdynaPartition partition({.blocks = 64, .block_move = 3, .alpha = 1.05}, 64 * 32, 2);
    partition.adjust(Numbers{50, 50}, 0);
    partition.adjust(Numbers{0, 0}, 0);
    CHECK(numbers(partition.lengths()) == Numbers{32, 32});
    for (int step = 0; step < 100; ++step) partition.adjust(Numbers{1000, 1}, 0);
    CHECK(numbers(partition.lengths()) == Numbers{8, 56});
  }

  TEST_CASE("exdyna's partitions cover any vector once, in nearly equal shares") {
    for (const std::size_t ranks : {1, 2, 3, 5, 8, 64}) {
      for (const std::size_t numel : {0, 1, 2, 7, 31, 32, 33, 1000, 32767, 32768, 65535, 65536, 100003, 1 << 20}) {
        CAPTURE(ranks);
        CAPTURE(numel);
        ExdynaPartition partition(kRules, numel, ranks);
        // Uneven counts move the cuts about; they stay cuts.
        for (std::uint64_t step = 0; step < 20; ++step) {
          std::size_t end = 0;
          for (std::size_t p = 0; p < ranks; ++p) {
            CHECK(partition.range(p).begin == end);
            CHECK(partition.range(p).end >= end);
            end = partition.range(p).end;
            // One block more or less by division, and the remainder, which is less than a block at 1024 of them.
            if (step == 0 && numel > 32768) {
              const auto share = static_cast<double>(end - partition.range(p).begin);
              const auto fair = static_cast<double>(numel) / static_cast<double>(ranks);
              CHECK(std::abs(share - fair) <= 2 * static_cast<double>(partition.block_size()));
            }
          }
          CHECK(end == numel);
          Numbers counts(ranks);
          std::iota(counts.begin(), counts.end(), step);
          partition.adjust(counts, step);
        }
      }
    }
  }

  TEST_CASE("exdyna's threshold follows the count from both sides, or as the paper has it") {
    CHECK(threshold_after(120) == static_cast<float>(0.05 * 1.005));
    CHECK(threshold_after(105) == static_cast<float>(0.05 * 1.00125));
    CHECK(threshold_after(100) == 0.05f);
    CHECK(threshold_after(95) == static_cast<float>(0.05 * 0.99875));
    CHECK(threshold_after(80) == static_cast<float>(0.05 * 0.995));
    CHECK(threshold_after(0) == static_cast<float>(0.05 * 0.995));
    const Overrides paper{{"feedback", std::string("paper")}};
    CHECK(threshold_after(120, paper) == static_cast<float>(0.05 * 1.005));
    CHECK(threshold_after(105, paper) == static_cast<float>(0.05 * 1.00125));
    CHECK(threshold_after(100, paper) == static_cast<float>(0.05 * 1.00125));
    CHECK(threshold_after(95, paper) == static_cast<float>(0.05 * 1.00125));
    CHECK(threshold_after(80, paper) == static_cast<float>(0.05 * 0.995));
  }

  TEST_CASE("exdyna's threshold falls after zeros as after any step that found nothing, and the cuts stay") {
    constexpr std::size_t kSize = 64 * 1024;
    const auto method = make_sparsifier("exdyna", kSize);
    const auto memory = make_memory("none", kSize);
    const Vector zeros(kSize, 0.0f);
    SparseVector selected;
    double expected = 0.05;  // k = 100
    for (std::uint64_t step = 0; step < 4; ++step) {
      select_step(*method, *memory, context_of(100, step, 0, 2), zeros, selected);
      CHECK(selected.empty());
      CHECK(method->threshold() == static_cast<float>(expected));
      observe_counts(*method, kSize, 100, step, {0, 0});
      expected *= 0.995;
    }
    const kernels::PassRequest request = method->plan(context_of(100, 4, 0, 2));
    CHECK(request.begin == 0);
    CHECK(request.end == kSize / 2);
  }

  TEST_CASE("exdyna's threshold stays a positive finite number, whatever the counts") {
    for (const std::uint64_t selected : {0, 1000000}) {
      const auto method = make_sparsifier("exdyna", 100, {{"gamma", 0.9}});
      method->plan(context_of(10, 0));
      for (std::uint64_t step = 0; step < 1000; ++step) observe_counts(*method, 100, 10, step, {selected});
      const float threshold = method->plan(context_of(10, 1000)).threshold;
      CHECK(threshold == (selected == 0 ? std::numeric_limits<float>::min() : std::numeric_limits<float>::max()));
    }
  }

  TEST_CASE("exdyna's ranks select disjointly, and together all that reaches the threshold") {
    constexpr int kRanks = 3;
    constexpr std::size_t kSize = 5000;
    const Vector acc = normals(kSize, 1);
    std::vector<std::unique_ptr<Sparsifier>> methods;
    for (int rank = 0; rank < kRanks; ++rank) methods.push_back(make_sparsifier("exdyna", kSize));
    for (std::uint64_t step = 0; step < 7; ++step) {
      Numbers counts;
      std::vector<int> owners(kSize, 0);
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto memory = make_memory("none", kSize);
        SparseVector selected;
        Sparsifier& method = *methods[static_cast<std::size_t>(rank)];
        select_step(method, *memory, context_of(50, step, rank, kRanks), acc, selected);
        CHECK(method.threshold() == methods.front()->threshold());
        counts.push_back(selected.size());
        for (const std::uint32_t index : indices(selected)) ++owners[index];
      }
      for (std::size_t i = 0; i < kSize; ++i) {
        REQUIRE(owners[i] == (std::fabs(acc[i]) >= methods.front()->threshold() ? 1 : 0));
      }
      for (const auto& method : methods) observe_counts(*method, kSize, 50, step, counts);
    }
  }

  TEST_CASE("exdyna with static partitions only rotates them") {
    const auto method = make_sparsifier("exdyna", 64 * 1024, {{"dynamic", false}});
    for (std::uint64_t step = 0; step < 10; ++step) {
      const kernels::PassRequest request = method->plan(context_of(50, step, 1, 2));
      CHECK(request.begin == (step % 2 == 0 ? 32 * 1024 : 0));
      CHECK(request.end == (step % 2 == 0 ? 64 * 1024 : 32 * 1024));
      observe_counts(*method, 64 * 1024, 50, step, {1, 99});
    }
  }

  TEST_CASE("exdyna's threshold moves with a change of the target as its formula does") {
    const auto method = make_sparsifier("exdyna", 10000);
    method->plan(context_of(100, 0));
    observe_counts(*method, 10000, 100, 0, {1000});
    CHECK(method->plan(context_of(25, 1)).threshold == static_cast<float>(0.05 * 1.005 * 2));
  }

  TEST_CASE("exdyna's first threshold may be the exact k-th magnitude, rank 0's where there are several") {
    const Overrides topk{{"first_delta", std::string("topk")}};
    const Vector acc = normals(5000, 3);
    CHECK(select_once("exdyna", acc, context_for(5000, 0.01), topk) ==
          select_once("topk", acc, context_for(5000, 0.01)));
    const auto first = make_sparsifier("exdyna", 8, topk), second = make_sparsifier("exdyna", 8, topk);
    const Vector mine{1, 2, 3, 4, 5, 6, 7, 8}, other{9, 9, 9, 9, 9, 9, 9, 9};
    for (auto* method : {first.get(), second.get()}) {
      const int rank = method == first.get() ? 0 : 1;
      const SelectContext context = context_of(3, 0, rank, 2);
      CHECK(method->plan(context).kind == kernels::PassRequest::Kind::kNone);
      const auto proposal = method->propose(context, view(rank == 0 ? mine : other));
      REQUIRE(proposal);
      if (rank == 0) CHECK(*proposal == 6);
      method->accept_proposal(6);
      CHECK_FALSE(method->propose(context, view(mine)));
      CHECK(method->plan(context_of(3, 1, rank, 2)).threshold == 6);
      // Another target is measured anew.
      CHECK(method->plan(context_of(2, 2, rank, 2)).kind == kernels::PassRequest::Kind::kNone);
      CHECK(method->propose(context_of(2, 2, rank, 2), view(mine)));
    }
  }

  TEST_CASE("exdyna's first threshold is the formula's where rank 0 has fewer than k entries") {
    CHECK(select_once("exdyna", {0, 0.1f, 0, -0.6f}, context_for(4, 0.75), {{"first_delta", std::string("topk")}}) ==
          Entries{{3, -0.6f}});  // 1 / (2 sqrt(3)) = 0.29
    // Two ranks: 0 is what rank 0 proposes, and the formula's is what both take.
    for (const int rank : {0, 1}) {
      const auto method = make_sparsifier("exdyna", 4, {{"first_delta", std::string("topk")}});
      const SelectContext context = context_of(3, 0, rank, 2);
      method->plan(context);
      const auto proposal = method->propose(context, view(rank == 0 ? Vector{0, 0.1f, 0, -0.6f} : Vector{9, 9, 9, 9}));
      REQUIRE(proposal);
      CHECK(*proposal == 0);
      method->accept_proposal(*proposal);
      CHECK(method->plan(context_of(3, 1, rank, 2)).threshold == static_cast<float>(1 / (2 * std::sqrt(3.0))));
    }
  }

  TEST_CASE("exdyna sends one entry where there is nothing to send, if told to") {
    const Vector acc(100, 0.001f);
    CHECK(select_once("exdyna", acc, context_of(10, 42)).empty());
    CHECK(select_once("exdyna", acc, context_of(10, 142), {{"force_one", true}}) == Entries{{42, 0.001f}});
    CHECK(select_once("exdyna", Vector(100), context_of(10, 142), {{"force_one", true}}) == Entries{{42, 0.0f}});
  }
}

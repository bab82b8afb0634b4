// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include "core/rng.h"
#include "kernels/select.h"

using namespace dragonn;
using namespace dragonn::kernels;

namespace {

SparseVector sparse(const std::vector<std::uint32_t>& indices, const std::vector<float>& values) {
  SparseVector result;
  result.resize_discard(indices.size());
  std::ranges::copy(indices, result.indices.data());
  std::ranges::copy(values, result.values.data());
  return result;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("scatter_add accumulates duplicates and skips empty slots") {
    std::vector<float> values{10, 20, 30};
    scatter_add(sparse({2, kEmptySlot, 0, 2}, {1, 0, 5, 7}), std::span<float>(values));
    CHECK(values == std::vector<float>{15, 20, 38});
  }

  TEST_CASE("scatter_zero and gather touch the named places only") {
    std::vector<float> values{1, 2, 3, 4};
    const std::vector<std::uint32_t> places{3, 1};
    std::vector<float> taken(2);
    gather(std::span<const float>(values), std::span<const std::uint32_t>(places), std::span<float>(taken));
    CHECK(taken == std::vector<float>{4, 2});
    scatter_zero(std::span<const std::uint32_t>(places), std::span<float>(values));
    CHECK(values == std::vector<float>{1, 0, 3, 0});
  }

  TEST_CASE("filter_threshold and count_threshold agree, in order") {
    const SparseVector entries = sparse({1, 4, 6, 9}, {-3, 1, 2, -2});
    SparseVector kept;
    filter_threshold(entries, 2, kept);
    CHECK(std::vector<std::uint32_t>(kept.indices.data(), kept.indices.data() + kept.size()) ==
          std::vector<std::uint32_t>{1, 6, 9});
    CHECK(count_threshold(entries, 2) == 3);
    filter_threshold(entries, 4, kept);
    CHECK(kept.empty());
  }

  TEST_CASE("count_thresholds counts what a scan for each threshold counts, on every instruction set") {
    std::vector<float> thresholds{-1, 0, 0, std::numeric_limits<float>::denorm_min()};
    while (thresholds.size() < kMostThresholds - 1) thresholds.push_back(thresholds.back() + 0.0625f);
    thresholds.push_back(std::numeric_limits<float>::infinity());
    const std::int64_t supported = hwy::SupportedTargets();
    for (const std::size_t size : {0, 1, 15, 64, 65, 1000, 70001}) {
      Rng rng(1, "select test");
      std::vector<float> values(size);
      for (float& value : values) value = rng.below(3) == 0 ? 0.0f : rng.normal();
      if (size > 60) {
        values[3] = std::numeric_limits<float>::quiet_NaN();
        values[59] = -std::numeric_limits<float>::infinity();
        values[60] = -2.0f * std::numeric_limits<float>::denorm_min();
      }
      std::vector<std::uint64_t> expected;
      for (const float threshold : thresholds) {
        expected.push_back(static_cast<std::uint64_t>(
            std::ranges::count_if(values, [&](float value) { return std::fabs(value) >= threshold && value != 0; })));
      }
      for (std::int64_t rest = supported; rest != 0; rest &= rest - 1) {
        hwy::SetSupportedTargetsForTest(rest & -rest);
        hwy::GetChosenTarget().DeInit();
        std::vector<std::uint64_t> counts(thresholds.size(), 99);
        count_thresholds(std::span<const float>(values), thresholds, counts);
        CHECK(counts == expected);
        // High thresholds alone: the shortcut past vectors that reach none.
        count_thresholds(std::span<const float>(values), std::span(thresholds).last(8), std::span(counts).last(8));
        CHECK(counts == expected);
      }
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().DeInit();
    }
  }

  TEST_CASE("count_thresholds refuses what it cannot count, and counts nothing above a NaN") {
    const std::vector<float> values{1, 2, 3};
    std::vector<std::uint64_t> counts(2);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto count = [&](const std::vector<float>& thresholds) {
      count_thresholds(std::span<const float>(values), thresholds, counts);
      return counts;
    };
    CHECK(count({2, nan}) == std::vector<std::uint64_t>{2, 0});
    CHECK(count({nan, nan}) == std::vector<std::uint64_t>{0, 0});
    CHECK_THROWS_AS(count({2, 1}), Error);
    CHECK_THROWS_AS(count({nan, 1}), Error);
    CHECK_THROWS_AS(count({1, 2, 3}), Error);
    counts.resize(kMostThresholds + 1);
    CHECK_THROWS_AS(count(std::vector<float>(kMostThresholds + 1, 1.0f)), Error);
  }
}

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "core/rng.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"

using namespace dragonn;
using namespace dragonn::kernels;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> normals(std::size_t size, std::uint64_t seed) {
  Rng rng(seed, "magnitude test");
  std::vector<float> values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

View<const float> view(const std::vector<float>& values) {
  return std::span<const float>(values);
}

/// Top-k by sorting: larger magnitudes first, lower indices first among equals, zeros never. Ascending indices.
std::vector<std::uint32_t> sorted_largest(const std::vector<float>& values, std::size_t k) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0 && !std::isnan(values[i])) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](auto a, auto b) { return std::fabs(values[a]) > std::fabs(values[b]); });
  order.resize(std::min(k, order.size()));
  std::ranges::sort(order);
  return order;
}

std::vector<std::uint32_t> indices(const SparseVector& selected) {
  const auto host = selected.indices.host();
  return {host.begin(), host.end()};
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("kth_largest_magnitude equals the sorted order, with ties, NaN and infinities") {
    std::vector<float> values = normals(3000, 1);
    for (std::size_t i = 0; i < values.size(); i += 7) values[i] = 0.5f;
    values[5] = kNan;
    values[6] = -std::numeric_limits<float>::infinity();
    std::vector<float> sorted;
    for (const float value : values) sorted.push_back(std::isnan(value) ? 0.0f : std::fabs(value));
    std::ranges::sort(sorted, std::greater<>());
    MagnitudeScratch scratch;
    for (const std::size_t k :
         {std::size_t{1}, std::size_t{2}, std::size_t{300}, std::size_t{1500}, std::size_t{3000}}) {
      CHECK(kth_largest_magnitude(view(values), k, scratch) == sorted[k - 1]);
    }
    CHECK(kth_largest_magnitude(view(values), 3001, scratch) == 0);
    CHECK_THROWS_AS(kth_largest_magnitude(view(values), 0, scratch), Error);
  }

  TEST_CASE("of many values the k-th is found too where a regular sample of them misleads, or all are alike") {
    constexpr std::size_t kSize = 1 << 18;
    MagnitudeScratch scratch;
    for (const std::size_t period : {std::size_t{1}, std::size_t{2}, std::size_t{64}}) {
      std::vector<float> values(kSize);
      Rng rng(9, "misleading sample");
      for (std::size_t i = 0; i < kSize; ++i) values[i] = i % period == 0 ? 7.0f : rng.uniform();
      values[3] = kNan;
      std::vector<float> sorted;
      for (const float value : values) sorted.push_back(std::isnan(value) ? 0.0f : value);
      std::ranges::sort(sorted, std::greater<>());
      for (const std::size_t k : {std::size_t{1}, kSize / 64, kSize / 64 + 1, kSize / 2, kSize / 2 + 1, kSize})
        CHECK(kth_largest_magnitude(view(values), k, scratch) == sorted[k - 1]);
    }
  }

  TEST_CASE("magnitude_lower_bound is reached by k values at least and lies within 1/16 of the k-th") {
    MagnitudeScratch scratch;
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{200000}}) {
      const std::vector<float> values = normals(size, 2);
      for (const std::size_t k : {std::size_t{1}, size / 100 + 1, size / 2 + 1}) {
        const float bound = magnitude_lower_bound(view(values), k, scratch);
        const float exact = kth_largest_magnitude(view(values), std::min(k, size), scratch);
        CHECK(bound <= exact);
        if (k < size) CHECK(bound * (1.0f + 1.0f / 16) >= exact);
      }
    }
  }

  TEST_CASE("select_largest is the sorted top-k, whatever bound the candidates come from") {
    std::vector<float> values = normals(5000, 3);
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] = 0.0f;
    for (std::size_t i = 1; i < values.size(); i += 9) values[i] = i % 2 == 0 ? -1.25f : 1.25f;
    values[8] = kNan;
    MagnitudeScratch scratch;
    SparseVector candidates, selected;
    for (const float bound : {0.0f, 0.3f, 1.25f, 2.0f, 100.0f}) {
      select_threshold(view(values), bound, candidates);
      for (const std::size_t k : {1, 10, 700, 2000, 3332, 5000, 9000}) {
        select_largest(view(values), k, candidates, bound, scratch, selected);
        const float smallest = smallest_kept(scratch);
        CHECK(indices(selected) == sorted_largest(values, k));
        float min = std::numeric_limits<float>::infinity();
        for (const float value : selected.values.host()) min = std::min(min, std::fabs(value));
        CHECK(smallest == min);
      }
    }
  }

  TEST_CASE("vectors of many pieces are ranked as short ones are, ties and all") {
    Rng rng(4, "magnitude test");
    std::vector<float> values(200001);
    for (float& value : values) value = static_cast<float>(rng.below(2001)) - 1000.0f;
    MagnitudeScratch scratch;
    SparseVector entries, kept;
    select_threshold(view(values), 0, entries);
    for (const std::size_t k : {std::size_t{1}, std::size_t{1000}, std::size_t{150000}, entries.size()}) {
      const std::vector<std::uint32_t> expected = sorted_largest(values, k);
      float smallest = std::numeric_limits<float>::infinity();
      for (const std::uint32_t index : expected) smallest = std::min(smallest, std::fabs(values[index]));
      CHECK(kth_largest_magnitude(view(values), k, scratch) == smallest);
      CHECK(keep_largest(entries, k, scratch, kept) == smallest);
      CHECK(indices(kept) == expected);
    }
  }

  TEST_CASE("keep_largest keeps all entries when there are fewer than k, and none for k = 0") {
    SparseVector entries, kept;
    const std::vector<float> values{3, 0, -1, 2};
    MagnitudeScratch scratch;
    select_threshold(view(values), 0, entries);
    CHECK(keep_largest(entries, 9, scratch, kept) == 1);
    CHECK(indices(kept) == std::vector<std::uint32_t>{0, 2, 3});
    CHECK(keep_largest(entries, 0, scratch, kept) == 0);
    CHECK(kept.empty());
  }

  TEST_CASE("moments of integers are exact at every length") {
    for (const std::size_t size : {0, 1, 7, 16, 17, 33, 1000, 70001}) {
      std::vector<float> values(size);
      for (std::size_t i = 0; i < size; ++i) values[i] = (i % 3 == 0 ? 1.0f : -1.0f) * static_cast<float>(i % 101);
      double sum = 0, squares = 0, signed_sum = 0;
      for (const float value : values) {
        sum += std::fabs(value);
        squares += static_cast<double>(value) * value;
        signed_sum += value;
      }
      const Moments moments = magnitude_moments(view(values));
      CHECK(moments.sum == sum);
      CHECK(moments.sum_squares == squares);
      CHECK(moments.signed_sum == signed_sum);
      CHECK(moments.largest == (size == 0 ? 0.0f : static_cast<float>(std::min<std::size_t>(size - 1, 100))));
    }
  }

  TEST_CASE("a NaN anywhere makes all moments NaN, an infinity the largest") {
    for (const std::size_t place : {std::size_t{0}, std::size_t{20}, std::size_t{40000}, std::size_t{70000}}) {
      std::vector<float> values(70001, 1.0f);
      values[place] = kNan;
      const Moments moments = magnitude_moments(view(values));
      CHECK(std::isnan(moments.sum));
      CHECK(std::isnan(moments.sum_squares));
      CHECK(std::isnan(moments.signed_sum));
      CHECK(std::isnan(moments.largest));
      values[place] = -std::numeric_limits<float>::infinity();
      CHECK(magnitude_moments(view(values)).largest == std::numeric_limits<float>::infinity());
    }
  }
}

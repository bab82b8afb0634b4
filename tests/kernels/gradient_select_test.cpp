// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/gradient/select.h"

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
}

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

std::vector<std::uint32_t> draw(std::size_t numel, std::size_t k, int rank, std::uint64_t step, const char* mode) {
  std::vector<float> acc(numel);
  std::iota(acc.begin(), acc.end(), 1.0f);
  SelectContext context = context_for(numel, 1.0, step);
  context.k = k;
  context.rank = rank;
  context.world_size = 4;
  std::vector<std::uint32_t> indices;
  for (const auto& [index, value] : select_once("randomk", acc, context, {{"mode", std::string(mode)}})) {
    CHECK(value == acc[index]);
    indices.push_back(index);
  }
  return indices;
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("randomk in mode shared draws the same set on every rank, in mode private another") {
    CHECK(draw(1000, 50, 0, 3, "shared") == draw(1000, 50, 2, 3, "shared"));
    CHECK(draw(1000, 50, 0, 3, "private") != draw(1000, 50, 2, 3, "private"));
    CHECK(draw(1000, 50, 0, 3, "shared") != draw(1000, 50, 0, 4, "shared"));
  }

  TEST_CASE("randomk draws k different indices, and all of them for k = n") {
    CHECK(draw(5, 5, 0, 0, "shared") == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
    for (const std::size_t k : {1, 2, 500, 999, 1000}) {
      const auto drawn = draw(1000, k, 0, 0, "private");
      CHECK(drawn.size() == k);
      CHECK(std::ranges::adjacent_find(drawn, std::greater_equal<>()) == drawn.end());
    }
  }

  TEST_CASE("randomk draws every index about equally often") {
    std::vector<int> drawn(20);
    constexpr int kSteps = 4000;
    for (int step = 0; step < kSteps; ++step) {
      for (const std::uint32_t index : draw(20, 5, 0, static_cast<std::uint64_t>(step), "shared")) ++drawn[index];
    }
    // A quarter of the steps each: binomial with standard deviation 27; five of them.
    for (const int count : drawn) CHECK(std::abs(count - kSteps / 4) < 137);
  }

  TEST_CASE("randomk selects zeros too, and rescales by n / k where asked to") {
    SelectContext context = context_for(8, 0.25);
    CHECK(select_once("randomk", std::vector<float>(8, 0.0f), context).size() == 2);
    for (const auto& [index, value] :
         select_once("randomk", std::vector<float>(8, 3.0f), context, {{"rescale", true}})) {
      CHECK(value == 12.0f);
    }
  }

  TEST_CASE("randomk's settings change what it promises to the collective") {
    const SparsifierEntry& entry = Registry<SparsifierEntry>::instance().at("randomk");
    const SelectionTraits traits =
        entry.traits(settings_of<SparsifierEntry>("randomk", {{"mode", std::string("private")}, {"rescale", true}}));
    CHECK_FALSE(traits.shared_indices);
    CHECK(traits.rescaled);
  }
}

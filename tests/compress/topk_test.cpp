// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

Entries topk(const std::vector<float>& acc, std::size_t k) {
  SelectContext context = context_for(acc.size(), 1.0);
  context.k = k;
  return select_once("topk", acc, context);
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("topk keeps the k largest magnitudes, and all entries when there are fewer") {
    const std::vector<float> acc{.1f, -.5f, .3f, .5f, -.2f};
    CHECK(topk(acc, 2) == Entries{{1, -.5f}, {3, .5f}});
    CHECK(topk(acc, 1) == Entries{{1, -.5f}});
    CHECK(topk(acc, 9).size() == 5);
    CHECK(topk(std::vector<float>(4, 0.0f), 2).empty());
  }

  TEST_CASE("target_count is at least 1 and refuses a density that is not above 0 and at most 1") {
    CHECK(target_count(0.01, 10) == 1);
    CHECK(target_count(0.5, 7) == 3);
    CHECK(target_count(1.0, 7) == 7);
    for (const double density : {0.0, -0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
      CHECK_THROWS_AS(target_count(density, 10), ConfigError);
    }
  }
}

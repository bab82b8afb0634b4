// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

TEST_SUITE("compress") {
  TEST_CASE("hard_threshold is 1 / (2 sqrt(k)) unless it is given") {
    // k = 10000: 0.005.
    const SelectContext context{.density = 0.01, .k = 10000};
    const std::vector<float> acc{.006f, -.004f, -.005f};
    CHECK(select_once("hard_threshold", acc, context) == Entries{{0, .006f}, {2, -.005f}});
    CHECK(select_once("hard_threshold", acc, context, {{"threshold", .0055}}) == Entries{{0, .006f}});
    CHECK(select_once("hard_threshold", acc, {.density = 0.01, .k = 0}).empty());  // as for k = 1: 0.5
  }

  TEST_CASE("hard_threshold selects nothing or everything as the magnitudes have it") {
    const std::vector<float> acc{1, 0, -2, 3};
    CHECK(select_once("hard_threshold", acc, context_for(4, 0.25), {{"threshold", 4.0}}).empty());
    CHECK(select_once("hard_threshold", acc, context_for(4, 0.25), {{"threshold", 1.0}}).size() == 3);
  }

  TEST_CASE("hard_threshold follows the target where the density warms up") {
    const auto method = make_sparsifier("hard_threshold", 1000);
    CHECK(method->plan({.k = 100}).threshold == 0.05f);
    CHECK(method->threshold() == 0.05f);
    CHECK(method->plan({.k = 25}).threshold == 0.1f);
  }
}

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "kernels/gradient/magnitude.h"
#include "tests/compress/search_input.h"
#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

using Vector = std::vector<float>;

/// The bisection with every trial counted, and the run of the band that starts at `offset` of the possible places.
Entries naive_selection(const Vector& acc, std::size_t k, int iterations, std::uint64_t seed) {
  const kernels::Moments moments = kernels::magnitude_moments(view(acc));
  const double mean = moments.sum / static_cast<double>(acc.size());
  double l = 0, h = 1;
  float th1 = std::numeric_limits<float>::infinity(), th2 = 0;
  std::size_t k1 = 0, k2 = acc.size() + 1;
  for (int i = 0; i < iterations; ++i) {
    const double r = (l + h) / 2;
    const auto th = static_cast<float>(mean + r * (moments.largest - mean));
    const std::size_t c = naive_count(acc, th);
    if (c <= k) {
      h = r;
      if (c >= k1) k1 = c, th1 = th;
    } else {
      l = r;
      if (c <= k2) k2 = c, th2 = th;
    }
  }
  const std::size_t inside = naive_count(acc, th2) - k1;
  const std::size_t wanted = std::min(k - k1, inside);
  Rng rng(seed, "mstopk", {0, 0, 0});
  const std::size_t first = wanted == 0 ? 0 : rng.below(inside - wanted + 1);
  Entries result;
  std::size_t seen = 0;
  for (std::uint32_t i = 0; i < acc.size(); ++i) {
    const float magnitude = std::fabs(acc[i]);
    if (acc[i] == 0 || magnitude < th2) continue;
    if (magnitude >= th1 || (seen >= first && seen < first + wanted)) result.emplace_back(i, acc[i]);
    seen += magnitude >= th1 ? 0 : 1;
  }
  return result;
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("mstopk bisects between mean and largest until exactly k reach the threshold") {
    // 7 (1 entry), 5.5 (2), 4.75 (3).
    const Vector acc{1, 1, 2, 3, 4, 5, 6, 10};
    const auto method = make_sparsifier("mstopk", acc.size());
    const auto memory = make_memory("none", acc.size());
    SparseVector selected;
    select_step(*method, *memory, {.density = 0.375, .k = 3}, acc, selected);
    CHECK(entries(selected) == Entries{{5, 5}, {6, 6}, {7, 10}});
    CHECK(method->threshold() == 4.75f);
  }

  TEST_CASE("mstopk takes a run of k among ties, and another one at other steps") {
    const Vector constant(8, 2.0f);
    std::set<std::uint32_t> starts;
    for (std::uint64_t step = 0; step < 50; ++step) {
      const Entries selected = select_once("mstopk", constant, {.step = step, .density = 0.375, .k = 3});
      REQUIRE(selected.size() == 3);
      CHECK(selected.back().first == selected.front().first + 2);
      starts.insert(selected.front().first);
    }
    CHECK(starts.size() == 6);  // all places
  }

  TEST_CASE("mstopk selects all non-zeros where they are no more than k") {
    CHECK(select_once("mstopk", {0, 1, 0, -2, 0}, {.density = 0.8, .k = 4}) == Entries{{1, 1}, {3, -2}});
  }

  TEST_CASE("mstopk selects what counting every trial would") {
    for_each_search_input([](const Vector& acc, double density) {
      const SelectContext context = context_for(acc.size(), density);
      for (const int iterations : {1, 5, 30, 200}) {
        CAPTURE(iterations);
        CAPTURE(acc.size());
        CAPTURE(density);
        CHECK((select_once("mstopk", acc, context, {{"iterations", std::int64_t{iterations}}}) ==
               naive_selection(acc, context.k, iterations, context.seed)));
      }
    });
  }
}

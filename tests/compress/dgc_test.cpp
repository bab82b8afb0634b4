// SPDX-License-Identifier: MIT
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "compress/threshold.h"
#include "core/rng.h"
#include "kernels/gradient/select.h"
#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

std::vector<float> ramp(std::size_t size) {
  std::vector<float> acc(size);
  std::iota(acc.begin(), acc.end(), 1.0f);
  return acc;
}

/// Runs a search on 1..100 from a forced threshold.
ThresholdSearchResult search_ramp(const ThresholdSearchRules& rules, float threshold, SparseVector& selected,
                                  std::size_t k = 10) {
  const std::vector<float> acc = ramp(100);
  SparseVector candidates, wider;
  kernels::select_threshold(view(acc), threshold, candidates);
  return search_threshold(rules, view(acc), k, threshold, candidates, wider, selected);
}

constexpr ThresholdSearchRules kGrace{.too_few = 0.7, .too_many = 1.3, .lower = 0.7f, .raise = 1.3f};

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("dgc with a complete sample takes the ceil(q * density)-th largest as its threshold") {
    const std::vector<float> acc{5, 4, 3, 2, 1};
    CHECK(select_once("dgc", acc, context_for(5, 0.4), {{"sample_ratio", 1.0}}) == Entries{{0, 5.0f}, {1, 4.0f}});
  }

  TEST_CASE("the grace search goes 65, 84.5, 109.85, 76.9, 99.96, 69.97, 90.97 from 50 and stops at 10 entries") {
    SparseVector selected;
    const ThresholdSearchResult result = search_ramp(kGrace, 50, selected);
    CHECK(result.changes == 7);
    CHECK(result.threshold == doctest::Approx(90.967).epsilon(1e-4));
    CHECK(indices(selected) == std::vector<std::uint32_t>{90, 91, 92, 93, 94, 95, 96, 97, 98, 99});
  }

  TEST_CASE("a threshold search ends after most_changes, with fewer entries than asked for if need be") {
    SparseVector selected;
    ThresholdSearchRules rules = kGrace;
    rules.lower = 0.999f;
    const ThresholdSearchResult result = search_ramp(rules, 200, selected);
    CHECK(result.changes == 10);
    CHECK(selected.empty());
  }

  TEST_CASE("a threshold search widens its pool when the threshold falls below the first") {
    SparseVector selected;
    // 120 selects none; then 84: 17, 109.2: none, 76.44: 24, 99.37: 1, 69.56: 31, 90.43: 10.
    const ThresholdSearchResult result = search_ramp(kGrace, 120, selected);
    CHECK(selected.size() == 10);
    CHECK(result.changes == 6);
  }

  TEST_CASE("a threshold search goes on above 1.3 k entries, which need not be a whole number") {
    SparseVector selected;
    CHECK(search_ramp(kGrace, 95, selected, 5).changes == 0);  // 6 entries, of 6.5
    CHECK(selected.size() == 6);
    CHECK(search_ramp(kGrace, 94, selected, 5).changes > 0);  // 7
  }

  TEST_CASE("dgc aims at ceil(rho n) entries, and keeps up to ceil(1.3 k) of them whole") {
    // Ties of the largest magnitude: all reach the threshold.
    const auto chosen = [](std::size_t numel, double density, std::size_t ties) {
      std::vector<float> acc(numel, 1.0f);
      std::fill_n(acc.begin() + 3, ties, 5.0f);
      return select_once("dgc", acc, context_for(numel, density), {{"sample_ratio", 1.0}}).size();
    };
    CHECK(chosen(25, 0.1, 4) == 4);  // k = ceil(2.5) = 3; ceil(3.9) = 4
    CHECK(chosen(25, 0.1, 5) == 3);
    CHECK(chosen(100, 0.05, 7) == 7);  // ceil(6.5)
    CHECK(chosen(100, 0.05, 8) == 5);
  }

  TEST_CASE("a threshold search leaves a threshold of 0 alone") {
    SparseVector selected;
    CHECK(search_ramp(kGrace, 0, selected).changes == 0);
    CHECK(selected.size() == 100);
  }

  TEST_CASE("dgc sends at most ceil(1.3 k) entries, exactly k when it chooses among too many") {
    Rng rng(1, "dgc test");
    std::vector<float> acc(1 << 16);
    for (float& value : acc) value = rng.normal();
    const double density = 0.01;
    const auto k = static_cast<std::size_t>(std::ceil(density * static_cast<double>(acc.size())));
    int exact = 0;
    for (std::uint64_t step = 0; step < 40; ++step) {
      const Entries chosen =
          select_once("dgc", acc, context_for(acc.size(), density, step), {{"sample_rank", std::int64_t{2}}});
      CHECK(chosen.size() <= static_cast<std::size_t>(std::ceil(1.3 * static_cast<double>(k))));
      if (chosen.size() == k) ++exact;
    }
    CHECK(exact > 0);
  }

  TEST_CASE("dgc chooses among too many by magnitude, ties to the lower index") {
    const std::vector<float> ties(1000, 2.0f);
    const Entries chosen = select_once("dgc", ties, context_for(1000, 0.01));
    CHECK(chosen.size() == 10);
    CHECK(chosen.front().first == 0);
    CHECK(chosen.back().first == 9);
  }

  TEST_CASE("dgc with truncate = index sends the first k by index") {
    // 12 entries reach the threshold, which is within 1.3 k.
    std::vector<float> acc(100, 1.0f);
    for (std::size_t i = 40; i < 52; ++i) acc[i] = 5.0f;
    const Overrides all{{"sample_ratio", 1.0}};
    CHECK(select_once("dgc", acc, context_for(100, 0.1), all).size() == 12);
    const Entries first =
        select_once("dgc", acc, context_for(100, 0.1), {{"sample_ratio", 1.0}, {"truncate", std::string("index")}});
    CHECK(first.size() == 10);
    CHECK(first.front().first == 40);
    CHECK(first.back().first == 49);
  }

  TEST_CASE("dgc sends all that reach its final threshold, unless it chose among too many") {
    Rng rng(2, "dgc test");
    std::vector<float> acc(1 << 14);
    for (float& value : acc) value = rng.normal();
    const auto memory = make_memory("none", acc.size());
    SparseVector selected, expected;
    // The factors of the loop strategies overshoot on the steep tail of a normal distribution: no band is promised.
    for (const char* strategy : {"dgc_code", "grace", "resample", "paper"}) {
      const auto dgc = make_sparsifier("dgc", acc.size(), {{"strategy", std::string(strategy)}});
      for (std::uint64_t step = 0; step < 10; ++step) {
        select_step(*dgc, *memory, context_for(acc.size(), 0.01, step), acc, selected);
        kernels::select_threshold(view(acc), dgc->threshold(), expected);
        CHECK(entries(selected) == entries(expected));
      }
    }
  }
}

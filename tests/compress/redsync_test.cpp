// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "kernels/gradient/magnitude.h"
#include "tests/compress/search_input.h"
#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

using Vector = std::vector<float>;

const Vector kExample{0, 0, 0, 0, 1, 2, 3, 4, 5, 10};  // mean 2.5, largest 10

Overrides mode(const char* name) {
  return {{"mode", std::string(name)}};
}

SelectContext context_of(const Vector& acc, std::size_t k) {
  return {.density = static_cast<double>(k) / static_cast<double>(acc.size()), .k = k};
}

/// The threshold that the mode ends with, every trial counted.
float naive_threshold(const Vector& acc, std::size_t k, const std::string& mode_name, double tolerance) {
  const kernels::Moments moments = kernels::magnitude_moments(view(acc));
  const double mean = moments.sum / static_cast<double>(acc.size());
  const auto at = [&](double r) { return static_cast<float>(mean + r * (moments.largest - mean)); };
  if (mode_name == "trim") {
    for (const double r : {0.8, 0.6, 0.4, 0.2}) {
      if (naive_count(acc, at(r)) >= k) return at(r);
    }
    return at(0);
  }
  double l = 0, h = 1, r = 0;
  while (h - l > tolerance) {
    r = (l + h) / 2;
    const std::size_t c = naive_count(acc, at(r));
    if (mode_name == "fixed") {
      if (k <= c && c <= 2 * k) break;
      if (c < k) h = r;
      if (c > 2 * k) l = r;
    } else {
      if (k < c && c < 2 * k) break;
      if (static_cast<double>(c) < static_cast<double>(k) / 2) {
        h = r;
      } else {
        l = r;
      }
    }
  }
  return at(r);
}

Entries naive_selection(const Vector& acc, const SelectContext& context, const std::string& mode_name,
                        double tolerance) {
  const float threshold = naive_threshold(acc, context.k, mode_name, tolerance);
  const std::size_t count = naive_count(acc, threshold);
  if ((mode_name == "fixed" && count > 2 * context.k) || (mode_name == "trim" && count > context.k)) {
    return select_once("topk", acc, context);
  }
  Entries result;
  for (std::uint32_t i = 0; i < acc.size(); ++i) {
    if (acc[i] != 0 && std::fabs(acc[i]) >= threshold) result.emplace_back(i, acc[i]);
  }
  return result;
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("redsync lowers its threshold while there are fewer than k entries, as the released code does not") {
    // fixed: 6.25 (1 entry), 4.375 (2), 3.4375 (3). search: 6.25 (1), 4.375 (2, raised), 5.3125 (1).
    CHECK(select_once("redsync", kExample, context_of(kExample, 3)) == Entries{{7, 4}, {8, 5}, {9, 10}});
    CHECK(select_once("redsync", kExample, context_of(kExample, 3), mode("search")) == Entries{{9, 10}});
  }

  TEST_CASE("redsync trims from the top down until it has k, and keeps the k largest") {
    // 8.5, 7 and 5.5 are reached by one entry, 4 by three.
    CHECK(select_once("redsync", kExample, context_of(kExample, 2), mode("trim")) == Entries{{8, 5}, {9, 10}});
    CHECK(select_once("redsync", kExample, context_of(kExample, 3), mode("trim")).size() == 3);
    // The mean is as far as it goes.
    CHECK(select_once("redsync", kExample, context_of(kExample, 6), mode("trim")).size() == 4);
    CHECK(select_once("redsync", {0, 0, 0, 1}, context_of({0, 0, 0, 1}, 3), mode("trim")).size() == 1);
  }

  TEST_CASE("redsync chooses k among the ties of a constant vector") {
    const Vector constant(100, -0.1f);
    for (const char* name : {"fixed", "trim"}) {
      CHECK(select_once("redsync", constant, context_of(constant, 3), mode(name)) ==
            Entries{{0, -0.1f}, {1, -0.1f}, {2, -0.1f}});
    }
  }

  TEST_CASE("redsync selects what counting every trial would") {
    for_each_search_input([](const Vector& acc, double density) {
      const SelectContext context = context_for(acc.size(), density);
      for (const char* name : {"fixed", "search", "trim"}) {
        for (const double tolerance : {0.2, 0.001}) {
          CAPTURE(name);
          CAPTURE(acc.size());
          CAPTURE(density);
          CAPTURE(tolerance);
          const Overrides overrides{{"mode", std::string(name)}, {"tolerance", tolerance}};
          const Entries expected = naive_selection(acc, context, name, tolerance);
          CHECK((select_once("redsync", acc, context, overrides) == expected));
        }
      }
    });
  }
}

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "compress/threshold.h"
#include "kernels/gradient/magnitude.h"
#include "tests/compress/search_input.h"
#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

using Vector = std::vector<float>;

/// The threshold of one step.
float threshold_of(const Vector& acc, const SelectContext& context, const std::string& variant) {
  const auto method = make_sparsifier("gaussiank", acc.size(), {{"variant", variant}});
  const auto memory = make_memory("none", acc.size());
  SparseVector selected;
  select_step(*method, *memory, context, acc, selected);
  return method->threshold();
}

/// The fit and the released codes' loops, every trial counted.
float naive_threshold(const Vector& acc, const SelectContext& context, const std::string& variant) {
  const kernels::Moments moments = kernels::magnitude_moments(view(acc));
  const auto n = static_cast<double>(acc.size());
  const double mean = (variant == "sidco" ? moments.sum : moments.signed_sum) / n;
  const double deviation = std::sqrt(std::max(0.0, (moments.sum_squares - n * mean * mean) / (n - 1)));
  double th = mean + deviation * normal_upper_quantile(context.density / 2);
  th = std::max(th, static_cast<double>(std::numeric_limits<float>::min()));
  const std::size_t k = context.k;
  const auto count = [&] { return naive_count(acc, static_cast<float>(th)); };
  if (variant == "vgg") {
    if (count() < 3 * k / 4) {
      for (int i = 0; i < 20 && count() < 3 * k / 4; ++i) th /= 1.02;
    } else {
      for (int i = 0; i < 20 && count() > 5 * k / 4; ++i) th *= 1.02;
    }
  } else if (variant == "lstm") {
    for (int i = 0; i < 50 && 4 * count() < 3 * k; ++i) th /= 1.012;
  } else if (variant == "bert") {
    if (4 * count() < 3 * k) {
      for (int i = 0; i < 20 && 6 * count() < 5 * k; ++i) th /= 1.012;
    }
  } else {
    for (int i = 0; i < 2; ++i) {
      const std::size_t c = count();
      if (3 * c < 2 * k) {
        th *= 0.5;
      } else if (3 * c > 4 * k) {
        th *= 1.5;
      }
    }
  }
  return static_cast<float>(th);
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("the normal quantile is right to the last digits") {
    // Known to 16 digits; erfc's rounding shows in the last.
    CHECK(normal_upper_quantile(0.5) == doctest::Approx(0.0).epsilon(1e-15));
    CHECK(normal_upper_quantile(0.1) == doctest::Approx(1.2815515655446004).epsilon(1e-14));
    CHECK(normal_upper_quantile(0.025) == doctest::Approx(1.959963984540054).epsilon(1e-14));
    CHECK(normal_upper_quantile(0.0005) == doctest::Approx(3.2905267314919255).epsilon(1e-14));
    CHECK(normal_upper_quantile(1e-300) > 37);
    CHECK(normal_upper_quantile(1e-300) < 38);
    CHECK_THROWS_AS(normal_upper_quantile(0), Error);
    CHECK_THROWS_AS(normal_upper_quantile(0.6), Error);
  }

  TEST_CASE("gaussiank fits a normal distribution and stops wherever its loop does") {
    // s = sqrt(5), th = 2.865636: two entries for k = 1. Three raises by 1.02 and there is none.
    const Vector acc{-3, -1, 0, 1, 3};
    const SelectContext context = context_for(5, 0.2);
    CHECK(threshold_of(acc, context, "lstm") == doctest::Approx(2.865636).epsilon(1e-6));
    CHECK(select_once("gaussiank", acc, context, {{"variant", std::string("lstm")}}) == Entries{{0, -3}, {4, 3}});
    CHECK(threshold_of(acc, context, "vgg") == doctest::Approx(2.865636 * 1.02 * 1.02 * 1.02).epsilon(1e-6));
    CHECK(select_once("gaussiank", acc, context).empty());
  }

  TEST_CASE("gaussiank selects every non-zero where no positive threshold fits") {
    const Vector acc{-5, -5, 0, -5.5f, -5};
    CHECK(select_once("gaussiank", acc, context_for(5, 0.8)).size() == 4);
  }

  TEST_CASE("gaussiank ends at the threshold that counting every trial gives") {
    for_each_search_input([](const Vector& acc, double density) {
      const SelectContext context = context_for(acc.size(), density);
      for (const char* variant : {"vgg", "lstm", "bert", "sidco"}) {
        CAPTURE(variant);
        CAPTURE(acc.size());
        CAPTURE(density);
        const float threshold = naive_threshold(acc, context, variant);
        CHECK(threshold_of(acc, context, variant) == threshold);
        CHECK(select_once("gaussiank", acc, context, {{"variant", std::string(variant)}}).size() ==
              naive_count(acc, threshold));
      }
    });
  }
}

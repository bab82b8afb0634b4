// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "compress/sidco/sidco_fit.h"
#include "core/rng.h"
#include "kernels/gradient/select.h"
#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;
using doctest::Approx;

namespace {

constexpr std::array kNames{"sidco_e", "sidco_gp", "sidco_p"};

Overrides fixed(std::int64_t stages, Overrides others = {}) {
  others.emplace_back("adapt", std::string("fixed"));
  others.emplace_back("stages", stages);
  return others;
}

/// The threshold of a fresh sparsifier on a given acc; `count` receives how many reach it.
float threshold_once(const std::string& name, const std::vector<float>& acc, double density, const Overrides& overrides,
                     std::size_t* count = nullptr) {
  const auto sparsifier = make_sparsifier(name, acc.size(), overrides);
  const auto memory = make_memory("none", acc.size());
  SparseVector selected;
  select_step(*sparsifier, *memory, context_for(acc.size(), density), acc, selected);
  if (count != nullptr) *count = selected.size();
  return sparsifier->threshold();
}

enum class Tail { kHalfNormal, kLaplace, kPareto };

std::vector<float> draw(Tail tail, std::size_t size, std::uint64_t seed) {
  constexpr double kShape = 0.4;
  Rng rng(seed, "sidco test", {static_cast<std::uint64_t>(tail)});
  std::vector<float> acc(size);
  for (float& value : acc) {
    const double survival = 1 - rng.uniform_double();
    value = tail == Tail::kHalfNormal ? rng.normal()
            : tail == Tail::kLaplace  ? static_cast<float>(-std::log(survival))
                                      : static_cast<float>((std::pow(survival, -kShape) - 1) / kShape);
  }
  return acc;
}

/// The stages of successive windows, and selected / k of the last step.
struct Trajectory {
  std::vector<std::int64_t> stages;
  double last_ratio = 0;
};

Trajectory adapt(const std::string& name, Tail tail, double density, std::size_t windows) {
  const std::vector<float> acc = draw(tail, 100000, 1);
  const auto sparsifier = make_sparsifier(name, acc.size(), {{"window", std::int64_t{1}}});
  const auto memory = make_memory("none", acc.size());
  Trajectory result;
  SparseVector selected;
  for (std::size_t step = 0; step < windows; ++step) {
    Archive archive;
    sparsifier->save(archive, "");
    result.stages.push_back(archive.get<std::int64_t>("stages"));
    const SelectContext context = context_for(acc.size(), density, step);
    select_step(*sparsifier, *memory, context, acc, selected);
    result.last_ratio = static_cast<double>(selected.size()) / static_cast<double>(context.k);
  }
  return result;
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("sidco_e on 1, 2, 3, 4, 10: one stage, two stages, and two shifted to the smallest exceedance") {
    const std::vector<float> acc{1, -2, 3, 4, -10};
    CHECK(select_once("sidco_e", acc, context_for(5, 0.2), fixed(1)) == Entries{{4, -10.0f}});
    CHECK(threshold_once("sidco_e", acc, 0.2, fixed(1)) == Approx(6.437752).epsilon(1e-6));
    CHECK(threshold_once("sidco_e", acc, 0.2, fixed(2, {{"first_ratio", 0.5}})) == Approx(5.424406).epsilon(1e-6));
    CHECK(threshold_once("sidco_e", acc, 0.2, fixed(2, {{"first_ratio", 0.5}, {"shift", std::string("min")}})) ==
          Approx(5.443442).epsilon(1e-6));
  }

  TEST_CASE("sidco_p takes the variance with n - 1 below: 1, 1, 1, 5 is exponential") {
    CHECK(threshold_once("sidco_p", {1, -1, 1, 5}, 0.25, fixed(1)) == Approx(2.772589).epsilon(1e-6));
  }

  TEST_CASE("sidco_gp fits a gamma distribution to .01, .1, .2, 5, whatever their scale") {
    // The summand before the logarithm changes it by 2.2e-16 / 0.002.
    for (const float scale : {1.0f, 1024.0f, 0x1p-40f}) {
      const std::vector<float> acc{0.01f * scale, -0.1f * scale, 0.2f * scale, 5 * scale};
      CHECK(threshold_once("sidco_gp", acc, 0.25, fixed(1)) / scale == Approx(1.585205).epsilon(1e-6));
      CHECK(threshold_once("sidco_gp", acc, 0.25, fixed(1, {{"gamma_inverse", std::string("exact")}})) / scale ==
            Approx(1.580026).epsilon(1e-6));
    }
  }

  TEST_CASE("later stages of sidco_gp are those of sidco_p, upon a first threshold of its own") {
    const std::vector<float> acc = draw(Tail::kPareto, 20000, 2);
    const float first = threshold_once("sidco_gp", acc, 0.25, fixed(1));
    double sum = 0, squares = 0, count = 0;
    for (const float value : acc) {
      if (value <= first) continue;
      const double excess = static_cast<double>(value) - first;
      sum += excess;
      squares += excess * excess;
      ++count;
    }
    const double variance = (squares - sum * sum / count) / (count - 1);
    CHECK(threshold_once("sidco_gp", acc, 0.001, fixed(2)) ==
          Approx(first + pareto_threshold(sum / count, variance, 0.004)).epsilon(1e-6));
  }

  TEST_CASE("a density of first_ratio or more takes one stage, however many there are") {
    const std::vector<float> acc = draw(Tail::kHalfNormal, 5000, 3);
    for (const char* name : kNames) {
      for (const double density : {0.25, 0.6}) {
        CHECK(threshold_once(name, acc, density, fixed(4)) == threshold_once(name, acc, density, fixed(1)));
      }
    }
  }

  TEST_CASE("stages raise the count of light tails and lower that of heavy ones, as measured for SIDCo") {
    // selected / k at density 0.001 with 1 to 4 stages of sidco_e; the counts of k = 200 have a deviation of 7 % or
    // more.
    const auto ratios = [](Tail tail) {
      const std::vector<float> acc = draw(tail, 200000, 4);
      std::vector<double> result;
      for (std::int64_t stages = 1; stages <= 4; ++stages) {
        result.push_back(
            static_cast<double>(select_once("sidco_e", acc, context_for(acc.size(), 0.001), fixed(stages)).size()) /
            200);
      }
      return result;
    };
    const std::vector<double> light = ratios(Tail::kHalfNormal);
    CHECK(light[0] == 0);
    CHECK(light[1] == Approx(0.09).epsilon(0.5));
    CHECK(light[2] == Approx(0.69).epsilon(0.25));
    CHECK(light[3] == Approx(1.07).epsilon(0.2));
    const std::vector<double> heavy = ratios(Tail::kPareto);
    CHECK(heavy[0] == Approx(13.4).epsilon(0.1));
    CHECK(heavy[1] == Approx(4.2).epsilon(0.15));
    CHECK(heavy[2] == Approx(1.08).epsilon(0.25));
    CHECK(heavy[3] == Approx(0.51).epsilon(0.3));
    CHECK(ratios(Tail::kLaplace)[0] == Approx(1).epsilon(0.2));
  }

  TEST_CASE("sidco_e adapts to four stages on half-normal, three on heavy-tailed and one on Laplace values") {
    using Stages = std::vector<std::int64_t>;
    CHECK(adapt("sidco_e", Tail::kHalfNormal, 0.001, 6).stages == Stages{1, 2, 3, 4, 4, 4});
    CHECK(adapt("sidco_e", Tail::kPareto, 0.001, 6).stages == Stages{1, 1, 2, 3, 3, 3});
    CHECK(adapt("sidco_e", Tail::kLaplace, 0.001, 4).stages == Stages{1, 1, 1, 1});
  }

  TEST_CASE("sidco_p is in its band at once on the Pareto and Laplace values that it fits") {
    for (const Tail tail : {Tail::kPareto, Tail::kLaplace}) {
      for (const double density : {0.05, 0.01}) {
        const double ratio = adapt("sidco_p", tail, density, 1).last_ratio;
        CHECK(ratio > 0.8);
        CHECK(ratio < 1.2);
      }
    }
  }

  TEST_CASE("what is selected is what reaches the threshold, with stages and without") {
    const std::vector<float> acc = draw(Tail::kHalfNormal, 70000, 5);
    const auto memory = make_memory("none", acc.size());
    SparseVector selected, expected;
    for (const char* name : kNames) {
      for (const std::int64_t stages : {1, 2, 3, 6}) {
        const auto sparsifier = make_sparsifier(name, acc.size(), fixed(stages));
        // The first step has no guess of the second threshold; on the others it is too low, then too high.
        for (const double density : {0.01, 0.01, 0.001, 0.05}) {
          select_step(*sparsifier, *memory, context_for(acc.size(), density), acc, selected);
          kernels::select_threshold(view(acc), sparsifier->threshold(), expected);
          CHECK(entries(selected) == entries(expected));
          CHECK(sparsifier->threshold() == Approx(threshold_once(name, acc, density, fixed(stages))).epsilon(1e-6));
        }
      }
    }
  }

  TEST_CASE("equal values: nothing reaches one exponential stage, two stages or a Pareto fit select all of them") {
    const std::vector<float> acc(1000, -0.3f);
    const SelectContext context = context_for(acc.size(), 0.01);
    for (const char* name : {"sidco_e", "sidco_gp"}) {
      CHECK(select_once(name, acc, context, fixed(1)).empty());
      CHECK(select_once(name, acc, context, fixed(2)).size() == 1000);
    }
    CHECK(select_once("sidco_p", acc, context, fixed(1)).size() == 1000);
  }

  TEST_CASE("equal values are sent after a window without any") {
    const std::vector<float> acc(1000, 2.0f);
    for (const char* name : kNames) {
      const auto sparsifier = make_sparsifier(name, acc.size());
      const auto memory = make_memory("none", acc.size());
      SparseVector selected;
      for (std::uint64_t step = 0; step < 6; ++step) {
        select_step(*sparsifier, *memory, context_for(acc.size(), 0.01, step), acc, selected);
      }
      CHECK(selected.size() == 1000);
    }
  }

  TEST_CASE("a single exceedance ends the stages: it and what ties with its threshold are selected") {
    // Mean 10, first threshold 13.9: one value above it.
    std::vector<float> acc(100, 1.0f);
    acc[7] = 901;
    for (const char* name : kNames) {
      CHECK(select_once(name, acc, context_for(acc.size(), 0.01), fixed(5)) == Entries{{7, 901.0f}});
    }
  }

  TEST_CASE("a zero vector leaves the search for the number of stages as it is") {
    const std::vector<float> zeros(500, 0.0f), normal = draw(Tail::kHalfNormal, 500, 6);
    for (const char* name : kNames) {
      const auto sparsifier = make_sparsifier(name, zeros.size());
      const auto memory = make_memory("none", zeros.size());
      SparseVector selected;
      for (std::uint64_t step = 0; step < 8; ++step) {
        Archive before, after;
        sparsifier->save(before, "");
        select_step(*sparsifier, *memory, context_for(500, 0.01, step), step % 2 == 0 ? zeros : normal, selected);
        sparsifier->save(after, "");
        CHECK((before.fields() == after.fields()) == (step % 2 == 0));
      }
    }
  }

  TEST_CASE("densities at which stages have no say do not count for their number") {
    const std::vector<float> acc = draw(Tail::kHalfNormal, 5000, 7);
    const auto sparsifier = make_sparsifier("sidco_e", acc.size(), {{"window", std::int64_t{1}}});
    const auto memory = make_memory("none", acc.size());
    SparseVector selected;
    for (const double density : {1.0, 0.5, 0.25}) {
      select_step(*sparsifier, *memory, context_for(acc.size(), density), acc, selected);
      Archive archive;
      sparsifier->save(archive, "");
      CHECK(archive.get<std::int64_t>("stages") == 1);
    }
  }

  TEST_CASE("a NaN is left out of the fit") {
    std::vector<float> acc = draw(Tail::kLaplace, 3000, 9);
    std::vector<float> zeroed = acc;
    for (std::size_t i = 0; i < acc.size(); i += 3) {
      acc[i] = std::numeric_limits<float>::quiet_NaN();
      zeroed[i] = 0;
    }
    for (const char* name : {"sidco_e", "sidco_p"}) {
      for (const std::int64_t stages : {1, 3}) {
        CHECK(threshold_once(name, acc, 0.01, fixed(stages)) ==
              Approx(threshold_once(name, zeroed, 0.01, fixed(stages))).epsilon(1e-6));
      }
    }
  }

  TEST_CASE("values near the largest float do not break the fits") {
    std::vector<float> acc = draw(Tail::kLaplace, 3000, 8);
    const float largest = *std::ranges::max_element(acc);
    for (float& value : acc) value *= 3e38f / largest;
    for (const char* name : kNames) {
      for (const std::int64_t stages : {1, 3}) {
        std::size_t count = 0;
        CHECK(std::isfinite(threshold_once(name, acc, 0.01, fixed(stages), &count)));
        CHECK(count > 10);
        CHECK(count < 60);
      }
    }
  }
}

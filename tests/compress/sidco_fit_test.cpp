// SPDX-License-Identifier: MIT
#include "compress/sidco/sidco_fit.h"

#include <cmath>
#include <initializer_list>
#include <limits>

#include <doctest/doctest.h>

using namespace dragonn::compress;
using doctest::Approx;

TEST_SUITE("compress") {
  TEST_CASE("the exponential threshold is the mean times ln(1 / q)") {
    CHECK(exponential_threshold(4, 0.2) == Approx(6.437752).epsilon(1e-6));
    CHECK(exponential_threshold(4, 1) == 0);
  }

  TEST_CASE("the Pareto fit of 1, 1, 1, 5 is exponential with n - 1 below the variance, and bounded with n") {
    const ParetoFit fit = fit_pareto(2, 4);
    CHECK(fit.shape == 0);
    CHECK(fit.scale == 2);
    CHECK(pareto_threshold(2, 4, 0.25) == Approx(2.772589).epsilon(1e-6));
    const ParetoFit biased = fit_pareto(2, 3);
    CHECK(biased.shape == Approx(-1.0 / 6));
    CHECK(biased.scale == Approx(7.0 / 3));
    CHECK(pareto_threshold(2, 3, 0.25) == Approx(2.888193).epsilon(1e-6));
  }

  TEST_CASE(
      "a Pareto fit finds the shape and scale that the moments come from, and its quantile inverts the survival") {
    for (const double shape : {-0.4, -0.1, 1e-7, 0.2, 0.45}) {
      const double scale = 3, mean = scale / (1 - shape);
      const ParetoFit fit = fit_pareto(mean, mean * mean / (1 - 2 * shape));
      CHECK(fit.shape == Approx(shape));
      CHECK(fit.scale == Approx(scale));
      for (const double q : {0.5, 0.01, 0.0001}) {
        const double y = pareto_quantile(fit, q);
        // Within 1e-6 of shape 0 the fit is the exponential, whose survival is off by shape * ln(q)^2 / 2.
        CHECK(std::pow(1 + fit.shape * y / fit.scale, -1 / fit.shape) == Approx(q).epsilon(1e-5));
      }
    }
  }

  TEST_CASE("a Pareto threshold of equal values is their mean, and that of a bounded fit is the exponential one") {
    CHECK(pareto_threshold(3, 0, 0.001) == 3);
    CHECK(pareto_threshold(3, 1e-14, 0.001) == 3);  // what the rounding of sums leaves
    // mean^2 / variance = 2: shape -1/2.
    CHECK(pareto_threshold(2, 2, 0.001) == exponential_threshold(2, 0.001));
    CHECK(pareto_threshold(2, std::numeric_limits<double>::quiet_NaN(), 0.001) == exponential_threshold(2, 0.001));
  }

  TEST_CASE("the gamma fit of .01, .1, .2, 5 and its quantile of .25, closed and exact") {
    const double mean = 5.31 / 4, mean_log = (std::log(0.01) + std::log(0.1) + std::log(0.2) + std::log(5)) / 4;
    CHECK(std::log(mean) - mean_log == Approx(2.010236).epsilon(1e-6));
    const GammaFit fit = fit_gamma(mean, mean_log);
    CHECK(fit.shape == Approx(0.331878).epsilon(1e-5));
    CHECK(fit.scale == Approx(3.999964).epsilon(1e-6));
    CHECK(gamma_threshold(mean, mean_log, 0.25, GammaInverse::kClosed) == Approx(1.585205).epsilon(1e-6));
    CHECK(gamma_threshold(mean, mean_log, 0.25, GammaInverse::kExact) == Approx(1.580026).epsilon(1e-6));
  }

  TEST_CASE("the exact gamma quantile inverts the survival where that is known in closed form") {
    for (const double q : {0.999, 0.75, 0.25, 0.01, 1e-3, 1e-8}) {
      CHECK(gamma_quantile_exact({.shape = 1, .scale = 2}, q) == Approx(exponential_threshold(2, q)).epsilon(1e-12));
      const double half = gamma_quantile_exact({.shape = 0.5, .scale = 1}, q);
      CHECK(std::erfc(std::sqrt(half)) == Approx(q).epsilon(1e-11));
      const double three = gamma_quantile_exact({.shape = 3, .scale = 1}, q);
      CHECK(std::exp(-three) * (1 + three + three * three / 2) == Approx(q).epsilon(1e-11));
    }
    CHECK(gamma_quantile_exact({.shape = 0.5, .scale = 1}, 1) == 0);
  }

  TEST_CASE("the exact gamma quantile holds from tiny shapes to large ones") {
    // P(a, x) = x^a / Gamma(a + 1) for small x.
    CHECK(gamma_quantile_exact({.shape = 0.01, .scale = 1}, 0.9) ==
          Approx(std::exp(std::log(0.1 * std::tgamma(1.01)) / 0.01)).epsilon(1e-9));
    // The median of a gamma distribution is a - 1/3 + 8 / (405 a) + O(a^-2).
    CHECK(gamma_quantile_exact({.shape = 1e4, .scale = 1}, 0.5) == Approx(1e4 - 1.0 / 3 + 8.0 / 405e4).epsilon(1e-10));
  }

  TEST_CASE("a gamma threshold gives way to the exponential where the closed form does not hold") {
    const auto mean_log_of_shape = [](double s) { return -s; };  // of values of mean 1
    // s = .05 is shape 10; s = 20 has shape .05, where q Gamma(shape) > 1 makes the closed form negative.
    REQUIRE(fit_gamma(1, mean_log_of_shape(0.05)).shape > 1);
    CHECK(gamma_threshold(1, mean_log_of_shape(0.05), 0.25, GammaInverse::kClosed) == exponential_threshold(1, 0.25));
    REQUIRE(gamma_quantile_closed(fit_gamma(1, mean_log_of_shape(20)), 0.25) < 0);
    CHECK(gamma_threshold(1, mean_log_of_shape(20), 0.25, GammaInverse::kClosed) == exponential_threshold(1, 0.25));
    CHECK(gamma_threshold(1, mean_log_of_shape(20), 0.25, GammaInverse::kExact) > 0);
    CHECK(gamma_threshold(1, mean_log_of_shape(0.05), 0.25, GammaInverse::kExact) < exponential_threshold(1, 0.25));
    for (const GammaInverse inverse : {GammaInverse::kClosed, GammaInverse::kExact}) {
      for (const double equal : {0.0, 1e-16, -1e-16}) {
        CHECK(gamma_threshold(1, equal, 0.25, inverse) == exponential_threshold(1, 0.25));
      }
    }
  }
}

// SPDX-License-Identifier: MIT
#include "compress/density_schedule.h"

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

double at(const std::string& name, const DensityPoint& point, const Overrides& overrides = {}) {
  return density_at(name, settings_of<DensityScheduleEntry>(name, overrides), point);
}

void check_epochs(const std::string& name, double density, const std::vector<double>& expected,
                  const Overrides& overrides = {}, double tolerance = 1e-12) {
  for (std::size_t epoch = 0; epoch < expected.size(); ++epoch) {
    CHECK(at(name, {.density = density, .epoch = epoch}, overrides) ==
          doctest::Approx(expected[epoch]).epsilon(tolerance));
  }
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("the density schedules of the papers give their lists, epoch by epoch") {
    check_epochs("constant", 0.01, {0.01, 0.01});
    check_epochs("dgc", 0.001, {0.25, 0.0625, 0.015625, 0.00390625, 0.001, 0.001});
    check_epochs("dgc", 1e-4, {0.25, 0.0625, 0.015625, 0.00390625, 0.0009765625, 0.000244140625, 1e-4});
    check_epochs("dgc", 0.05, {0.25, 0.0625, 0.05});
    check_epochs("gtopk", 0.005, {0.25, 0.0725, 0.015, 0.005, 0.005});
    // Printed to four digits in the sources.
    check_epochs("dgc_code", 0.001, {0.3162, 0.1, 0.03162, 0.01, 0.003162, 0.001, 0.001}, {}, 1e-3);
    check_epochs("gtopk", 0.001, {0.25, 0.0725, 0.015, 0.004, 0.001, 0.001});
    check_epochs("exponential", 0.01, {0.16, 0.08, 0.04, 0.02, 0.01, 0.01}, {{"initial_density", 0.16}});
    check_epochs("list", 0.01, {0.5, 0.1, 0.01}, {{"densities", std::vector<double>{0.5, 0.1}}});
  }

  TEST_CASE("oktopk_dense counts steps, not epochs") {
    const Overrides dense{{"dense_steps", std::int64_t{128}}};
    CHECK(at("oktopk_dense", {.density = 0.01, .epoch = 9, .step = 127}, dense) == 1.0);
    CHECK(at("oktopk_dense", {.density = 0.01, .epoch = 0, .step = 128}, dense) == 0.01);
    CHECK(at("oktopk_dense", {.density = 0.01, .step = 511}) == 1.0);
    CHECK(at("oktopk_dense", {.density = 0.01, .step = 512}) == 0.01);
    CHECK(at("oktopk_dense", {.density = 0.01}, {{"dense_steps", std::int64_t{0}}}) == 0.01);
  }

  TEST_CASE("rate falls to the next density with each factor of the learning rate") {
    const auto density = [](double rate_share, const Overrides& overrides = {}) {
      return at("rate", {.density = 0.01, .epoch = 3, .step = 99, .rate_share = rate_share}, overrides);
    };
    CHECK(density(1) == 0.8);
    CHECK(density(0.3) == 0.8);
    CHECK(density(0.29) == 0.02);
    CHECK(density(0.1) == 0.02);
    CHECK(density(0.0899) == 0.01);
    CHECK(density(0) == 0.01);
    const Overrides halves{{"fall", 0.5}, {"densities", std::vector<double>{0.5, 0.25, 0.001}}};
    CHECK(density(0.5, halves) == 0.5);
    CHECK(density(0.25, halves) == 0.25);
    CHECK(density(0.2, halves) == 0.01);  // never below the target
    CHECK(density(0.5, {{"densities", std::vector<double>{}}}) == 0.01);
  }

  TEST_CASE("dense_ends is dense in the first and the last share of the steps") {
    Overrides shares{{"first_share", 0.1}, {"last_share", 0.25}};
    const auto density = [&](std::uint64_t step) {
      return at("dense_ends", {.density = 0.01, .step = step, .steps = 40}, shares);
    };
    CHECK(density(3) == 1.0);
    CHECK(density(4) == 0.01);
    CHECK(density(29) == 0.01);
    CHECK(density(30) == 1.0);
    CHECK(density(39) == 1.0);
    shares.emplace_back("density", 0.3);
    CHECK(density(3) == 0.3);
    CHECK(density(4) == 0.01);
    CHECK(density(30) == 0.3);
  }

  TEST_CASE("no schedule falls below the target or rises above 1") {
    for (const std::string& name : Registry<DensityScheduleEntry>::instance().names()) {
      for (const double density : {1.0, 0.5, 0.02, 1e-4}) {
        for (std::size_t epoch = 0; epoch < 12; ++epoch) {
          const double value = at(name, {.density = density,
                                         .epoch = epoch,
                                         .step = 600 * epoch,
                                         .rate_share = std::pow(0.5, static_cast<double>(epoch))});
          CHECK(value >= density);
          CHECK(value <= 1.0);
          if (epoch == 11) CHECK(value == density);
        }
      }
    }
  }

  TEST_CASE("a density that is not above 0 and at most 1 and an unknown schedule are refused") {
    CHECK_THROWS_AS(at("constant", {.density = 0.0}), ConfigError);
    CHECK_THROWS_AS(at("constant", {.density = 1.5}), ConfigError);
    CHECK_THROWS_AS(at("linear", {.density = 0.5}), ConfigError);
  }
}

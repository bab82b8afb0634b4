// SPDX-License-Identifier: MIT
#include "optim/schedule.h"

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/optim/optimizer_fixture.h"

namespace dragonn::optim {
namespace {

std::unique_ptr<Schedule> make_schedule(const std::string& name, const Overrides& overrides,
                                        const ScheduleContext& context) {
  const ScheduleEntry& entry = Registry<ScheduleEntry>::instance().at(name);
  return entry.make(settings_of(entry.settings, overrides), context);
}

TEST_SUITE("optim") {
  TEST_CASE("constant keeps the rate") {
    const auto schedule = make_schedule("constant", {}, {0.5, 10, 100});
    for (const std::uint64_t step : {0, 1, 99, 1000}) CHECK(schedule->learning_rate(step) == 0.5);
  }

  TEST_CASE("milestones multiply from the first step of their epochs on") {
    const auto schedule =
        make_schedule("milestones", {{"milestones", std::vector<std::int64_t>{2, 3}}, {"gamma", 0.5}}, {8.0, 10, 50});
    CHECK(schedule->learning_rate(19) == 8.0);
    CHECK(schedule->learning_rate(20) == 4.0);
    CHECK(schedule->learning_rate(29) == 4.0);
    CHECK(schedule->learning_rate(30) == 2.0);
    CHECK(schedule->learning_rate(49) == 2.0);
  }

  TEST_CASE("cosine goes from the full rate over half of it to the final one") {
    const auto schedule = make_schedule("cosine", {{"final_factor", 0.5}}, {4.0, 10, 100});
    CHECK(schedule->learning_rate(0) == 4.0);
    CHECK(schedule->learning_rate(50) == doctest::Approx(3.0));
    CHECK(schedule->learning_rate(100) == doctest::Approx(2.0));
    CHECK(schedule->learning_rate(200) == doctest::Approx(2.0));
  }

  TEST_CASE("linear ends at the end of the run") {
    const auto schedule = make_schedule("linear", {}, {4.0, 10, 100});
    CHECK(schedule->learning_rate(0) == 4.0);
    CHECK(schedule->learning_rate(25) == 3.0);
    CHECK(schedule->learning_rate(75) == 1.0);
    CHECK(schedule->learning_rate(100) == 0.0);
  }

  TEST_CASE("exponential multiplies after every epoch") {
    const auto schedule = make_schedule("exponential", {{"gamma", 0.5}}, {8.0, 10, 50});
    CHECK(schedule->learning_rate(9) == 8.0);
    CHECK(schedule->learning_rate(10) == 4.0);
    CHECK(schedule->learning_rate(35) == 1.0);
  }

  TEST_CASE("plateau multiplies when the loss stops falling, and a loaded one goes on") {
    const Overrides overrides{{"gamma", 0.5}, {"patience", std::int64_t{2}}, {"threshold", 0.125}};
    const auto schedule = make_schedule("plateau", overrides, {8.0, 10, 50});
    const auto rate_after = [&](double loss) {
      schedule->observe(loss);
      return schedule->learning_rate(20);
    };
    CHECK(rate_after(4.0) == 8.0);
    CHECK(rate_after(3.0) == 8.0);
    CHECK(rate_after(2.75) == 8.0);  // less than an eighth better
    Archive archive;
    schedule->save(archive, "schedule/");
    CHECK(rate_after(3.5) == 4.0);
    CHECK(rate_after(3.5) == 4.0);
    CHECK(rate_after(2.0) == 4.0);
    CHECK(rate_after(2.0) == 4.0);
    CHECK(rate_after(2.0) == 2.0);
    const auto resumed = make_schedule("plateau", overrides, {8.0, 10, 50});
    resumed->load(archive, "schedule/");
    CHECK(resumed->learning_rate(20) == 8.0);
    resumed->observe(3.5);
    CHECK(resumed->learning_rate(20) == 4.0);
  }

  TEST_CASE("every schedule starts with a linear warm-up if asked to") {
    for (const std::string& name : Registry<ScheduleEntry>::instance().names()) {
      const auto schedule =
          make_schedule(name, {{"warmup_epochs", 2.0}, {"warmup_start_factor", 0.25}}, {4.0, 10, 100});
      CHECK(schedule->learning_rate(0) == 1.0);
      CHECK(schedule->learning_rate(10) == 2.5);
      CHECK(schedule->learning_rate(20) == 4.0);
      for (const std::uint64_t step : {0, 10, 20}) CHECK(schedule->decay(step) == 1.0);
      CHECK(schedule->learning_rate(70) == 4.0 * schedule->decay(70));
    }
  }

  TEST_CASE("decays run over what the warm-up leaves") {
    const auto schedule =
        make_schedule("linear", {{"warmup_epochs", 2.0}, {"warmup_start_factor", 0.0}}, {4.0, 10, 100});
    CHECK(schedule->learning_rate(60) == 2.0);
    CHECK(schedule->learning_rate(100) == 0.0);
  }

  TEST_CASE("cosine with a warm-up and a length in steps is nanoGPT's get_lr") {
    constexpr double kBase = 6e-4, kLeast = 6e-5;
    constexpr std::int64_t kWarmup = 20, kDecay = 60;
    const auto schedule = make_schedule("cosine",
                                        {{"warmup_steps", kWarmup},
                                         {"warmup_start_factor", 1.0 / (kWarmup + 1)},
                                         {"decay_steps", kDecay},
                                         {"final_factor", kLeast / kBase}},
                                        {kBase, 7, 1000});
    for (std::uint64_t step = 0; step < 100; ++step) {
      const auto it = static_cast<double>(step);
      double expected = kLeast;
      if (it < kWarmup) {
        expected = kBase * (it + 1) / (kWarmup + 1);
      } else if (it <= kDecay) {
        const double ratio = (it - kWarmup) / (kDecay - kWarmup);
        expected = kLeast + 0.5 * (1 + std::cos(std::acos(-1.0) * ratio)) * (kBase - kLeast);
      }
      CAPTURE(step);
      CHECK(schedule->learning_rate(step) == doctest::Approx(expected).epsilon(1e-12));
    }
  }

  TEST_CASE("a warm-up has a length in steps or in epochs, not both") {
    CHECK_THROWS_AS(make_schedule("constant", {{"warmup_steps", std::int64_t{5}}, {"warmup_epochs", 1.0}}, {}),
                    ConfigError);
  }

  TEST_CASE("a warm-up longer than the run only warms up") {
    for (const std::string& name : Registry<ScheduleEntry>::instance().names()) {
      const auto schedule =
          make_schedule(name, {{"warmup_epochs", 20.0}, {"warmup_start_factor", 0.0}}, {4.0, 10, 100});
      CHECK(schedule->learning_rate(50) == 1.0);
      CHECK(schedule->learning_rate(99) == doctest::Approx(1.98));
    }
  }

  TEST_CASE("settings out of range are refused") {
    CHECK_THROWS_AS(make_schedule("constant", {{"warmup_epochs", -1.0}}, {}), ConfigError);
    CHECK_THROWS_AS(make_schedule("constant", {{"warmup_start_factor", 2.0}}, {}), ConfigError);
    CHECK_THROWS_AS(make_schedule("milestones", {{"milestones", std::vector<std::int64_t>{-1}}}, {}), ConfigError);
    CHECK_THROWS_AS(make_schedule("staircase", {}, {}), ConfigError);
  }
}

}  // namespace
}  // namespace dragonn::optim

// SPDX-License-Identifier: MIT
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "report/curves.h"
#include "report/outputs.h"
#include "report/statistics.h"
#include "tests/core/temporary_folder.h"
#include "tests/report/fake_run.h"

namespace {

using namespace dragonn;
using namespace dragonn::report;
using dragonn::test::TemporaryFolder;

/// A step line with the given further keys.
std::string line(int step, const std::string& keys) {
  return fmt::format(R"({{"kind":"step","step":{},"loss":1,{}}})", step, keys);
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("estimation has the mean, its 90 % confidence interval and the percentiles") {
    const auto result = estimation(std::vector<double>{4, 1, 3, 2});
    REQUIRE(result);
    CHECK(result->steps == 4);
    CHECK(result->mean == 2.5);
    // s^2 = (2.25 + 0.25 + 0.25 + 2.25) / 3; the last bits depend on the order of operations.
    const double half_width = 1.645 * std::sqrt(5.0 / 3) / 2;
    CHECK(result->ci_low == doctest::Approx(2.5 - half_width));
    CHECK(result->ci_high == doctest::Approx(2.5 + half_width));
    CHECK(result->p5 == doctest::Approx(1.15));
    CHECK(result->p95 == doctest::Approx(3.85));
  }

  TEST_CASE("of one value the interval and the percentiles are that value, of none there is nothing") {
    const auto one = estimation(std::vector<double>{0.5});
    REQUIRE(one);
    CHECK(one->ci_low == 0.5);
    CHECK(one->ci_high == 0.5);
    CHECK(one->p5 == 0.5);
    CHECK(one->p95 == 0.5);
    CHECK_FALSE(estimation(std::vector<double>{}));
  }

  TEST_CASE("selected over asked for is read from counts by rank, from their mean, and without k from the densities") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    fake.line(line(1, R"("k":10,"selected":[9,12,15])"))
        .line(line(2, R"("k":10,"selected":{"min":1,"mean":5,"max":9})"))
        .line(line(3, R"("density_target":0.25,"density_local":0.5)"))
        .line(line(4, R"("k":0,"selected":[0])"))
        .line(line(5, R"("learning_rate":1)"));
    const Run run = load_run(fake.folder());
    CHECK(run.steps[0].selected_over_k == 1.2);
    CHECK(run.steps[1].selected_over_k == 0.5);
    CHECK(run.steps[2].selected_over_k == 2.0);
    CHECK_FALSE(run.steps[3].selected_over_k);
    CHECK_FALSE(run.steps[4].selected_over_k);
    CHECK(estimation(std::span(&run, 1))->steps == 3);
  }

  TEST_CASE("the error trace has the thresholds' sum, over the steps that have both numbers") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    fake.line(line(1, R"("threshold":1,"residual_norm":8)"))
        .line(line(2, R"("residual_norm":100)"))
        .line(line(3, R"("threshold":3,"residual_norm":24)"));
    Group group;
    group.runs.push_back(load_run(fake.folder()));
    const ThresholdTrace trace = threshold_trace(group);
    CHECK(trace.threshold.step == std::vector<double>{1, 3});
    CHECK(trace.threshold.mean == std::vector<double>{1, 3});
    CHECK(trace.error.mean == std::vector<double>{1, 3});  // 4 / 32 of the norms
    CHECK(threshold_trace(Group{}).error.empty());
  }

  TEST_CASE("selecting costs compensate and select, fused or not, as a share of what is not hidden") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    const std::string seconds =
        R"("seconds":{"forward":2,"compensate":0.25,"select":0.25,"compensate_select":0.5,"exchange":1,"exchange_hidden":9,"exchange_exposed":5})";
    fake.line(line(1, R"("seconds":{"forward":100})")).line(line(2, seconds)).line(line(3, seconds));
    const Run run = load_run(fake.folder());
    const auto cost = select_cost(std::span(&run, 1));
    REQUIRE(cost);
    CHECK(cost->seconds == 1.0);
    CHECK(cost->share == 0.25);
    CHECK(runs_csv(compare({run})).find(",3,0.25,") != std::string::npos);  // of three steps
    CHECK_FALSE(select_cost({}));
  }
}

// SPDX-License-Identifier: MIT
#include "report/compare.h"

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "report/curves.h"
#include "report/outputs.h"
#include "tests/core/temporary_folder.h"
#include "tests/report/fake_run.h"

namespace {

using namespace dragonn;
using namespace dragonn::report;
using dragonn::test::TemporaryFolder;

const Metric kAccuracy{"accuracy", "Test accuracy", true, true};

/// A dense run and a top-k run of two seeds: steps 10 and 20, evaluated at both.
struct Example {
  TemporaryFolder temporary;

  std::vector<Run> runs() {
    return {make("dense", "dense", 1, {0.5, 0.8}, 1000, 100), make("topk-seed1", "topk", 1, {0.5, 0.75}, 10, 200),
            make("topk-seed2", "topk", 2, {0.7, 0.77}, 10, 220)};
  }
  Run make(const std::string& name, const std::string& method, int seed, std::vector<double> accuracy,
           double bytes_per_step, double throughput) {
    FakeRun fake(temporary / name);
    fake.config(method, seed).summary(throughput);
    for (int i = 0; i < 2; ++i) {
      fake.step(10 * (i + 1), 2.0 / (i + seed), bytes_per_step)
          .eval(10 * (i + 1), accuracy[static_cast<std::size_t>(i)]);
    }
    return load_run(fake.folder());
  }
};

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("wall times and virtual ones are said not to compare") {
    const TemporaryFolder temporary;
    const auto run_with = [&](const std::string& name, const std::string& time) {
      FakeRun fake(temporary / name);
      fake.config("topk", 1).summary(100, "[]", time).step(10, 1.0);
      return load_run(fake.folder());
    };
    CHECK(compare({run_with("a", "wall"), run_with("b", "wall")}).warnings.empty());
    CHECK(compare({run_with("c", "virtual"), run_with("d", "virtual")}).warnings.empty());
    CHECK(compare({run_with("e", "wall"), run_with("f", "virtual")}).warnings ==
          std::vector<std::string>{"the times of f are virtual and those of e wall times: do not compare them"});
  }

  TEST_CASE("the target is reached at the first evaluation at it or better") {
    Run run;
    for (double value : {0.2, 0.5, 0.4, 0.6}) {
      EvalPoint point;
      point.step = 10.0 * static_cast<double>(run.evals.size() + 1);
      point.time = 2 * point.step;
      point.bytes = 3 * point.step;
      point.metrics["accuracy"] = value;
      point.metrics["perplexity"] = 100 * value;
      run.evals.push_back(point);
    }
    const auto reached = time_to_target(run, kAccuracy, 0.5);
    REQUIRE(reached);
    CHECK(reached->step == 20);
    CHECK(reached->time == 40);
    CHECK(reached->bytes == 60);
    CHECK_FALSE(time_to_target(run, kAccuracy, 0.61));
    CHECK(time_to_target(run, {"perplexity", "", false, false}, 20)->step == 10);
    CHECK_FALSE(time_to_target(run, {"perplexity", "", false, false}, 19));
  }

  TEST_CASE("best is the earliest of the best, final the last") {
    Run run;
    for (double value : {0.2, 0.6, 0.6, 0.4}) {
      EvalPoint point;
      point.epoch = static_cast<double>(run.evals.size() + 1);
      point.metrics["accuracy"] = value;
      run.evals.push_back(point);
    }
    const RunResult result = evaluate_run(run, kAccuracy, {});
    CHECK(result.final_metric == 0.4);
    CHECK(result.best_metric == 0.6);
    CHECK(result.best_epoch == 2.0);
    CHECK_FALSE(result.to_target);
    CHECK_FALSE(result.throughput);
  }

  TEST_CASE("runs that differ in the seed only are one group, with mean and range") {
    Example example;
    const Comparison comparison = compare(example.runs());
    REQUIRE(comparison.groups.size() == 2);
    const Group& topk = comparison.groups[1];
    CHECK(topk.label == "topk");
    CHECK(topk.runs.size() == 2);
    const auto final_metric = topk.spread_of(&RunResult::final_metric);
    REQUIRE(final_metric);
    CHECK(final_metric->mean == doctest::Approx(0.76));
    CHECK(final_metric->low == 0.75);
    CHECK(final_metric->high == 0.77);
    CHECK(topk.spread_of(&RunResult::throughput)->mean == 210);
    CHECK(topk.spread_of(&RunResult::bytes_per_step)->mean == 10);
  }

  TEST_CASE("the target is 95 % of the dense run's final value unless it is given") {
    Example example;
    const Comparison comparison = compare(example.runs());
    REQUIRE(comparison.dense);
    CHECK(*comparison.dense == 0);
    CHECK(*comparison.target == doctest::Approx(0.76));
    CHECK(comparison.target_reason == "at least 95 % of dense's final value");
    CHECK_FALSE(comparison.groups[1].spread_of(&Reached::time));  // one seed does not reach it
    const Comparison given = compare(example.runs(), {.target = 0.7});
    CHECK(*given.target == 0.7);
    CHECK(given.groups[1].spread_of(&Reached::step)->mean == 15);
  }

  TEST_CASE("the share of dense's quality that makes the target can be chosen, above 0 and at most 1") {
    Example example;
    const Comparison comparison = compare(example.runs(), {.target_share = 0.9});
    CHECK(*comparison.target == doctest::Approx(0.72));
    CHECK(comparison.target_reason == "at least 90 % of dense's final value");
    for (double share : {0.0, -1.0, 1.5, std::nan("")}) {
      CAPTURE(share);
      CHECK_THROWS_AS(compare(example.runs(), {.target_share = share}), ConfigError);
    }
  }

  TEST_CASE("a target in percent is refused with the share that it stands for") {
    Example example;
    CHECK_THROWS_WITH_AS(compare(example.runs(), {.target = 65}),
                         "--target 65: accuracy is a share in 0..1; did you mean 0.65?", ConfigError);
    CHECK_THROWS_WITH_AS(compare(example.runs(), {.target = -0.5}), "--target -0.5: accuracy is a share in 0..1",
                         ConfigError);
    CHECK_THROWS_AS(compare(example.runs(), {.target = std::nan("")}), ConfigError);
    CHECK(*compare(example.runs(), {.target = 1}).target == 1);
  }

  TEST_CASE("runs of other models or data sets are refused unless asked for, other keys of them are a warning") {
    const TemporaryFolder temporary;
    const auto run_on = [&](const std::string& name, const std::string& model, const std::string& data) {
      FakeRun fake(temporary / name);
      fake.config("topk", 1, fmt::format("[model]\nname = \"{}\"\n[data]\n{}", model, data)).summary(1).step(10, 1.0);
      return load_run(fake.folder());
    };
    const Run one = run_on("one", "mlp", "name = \"a\"\npath = \"x\"\ntest_limit = 10\n");
    const Run other_model = run_on("two", "cnn", "name = \"a\"\npath = \"y\"\ntest_limit = 10\n");
    const Run other_data = run_on("three", "mlp", "name = \"b\"\n");
    const Run smaller = run_on("four", "mlp", "name = \"a\"\npath = \"y\"\ntest_limit = 5\n");
    CHECK_THROWS_WITH_AS(
        compare({one, other_model}),
        "one and two are runs of different tasks: model.name is \"mlp\" and \"cnn\"; expected one data "
        "set and model (--allow-different-tasks compares them all the same)",
        ConfigError);
    CHECK_THROWS_AS(compare({one, other_data}), ConfigError);
    CHECK(compare({one, other_model}, {.allow_different_tasks = true}).groups.size() == 2);
    CHECK(compare({one, smaller}).warnings ==
          std::vector<std::string>{
              "data.test_limit differs: \"10\" in one, \"5\" in four; their qualities may not compare"});
    CHECK(compare({one}).warnings.empty());
  }

  TEST_CASE("from three seeds on the mean has a 95 % confidence interval") {
    const std::vector<std::optional<double>> values{1.0, {}, 2.0, 3.0};
    const auto three = spread(values);
    REQUIRE(three);
    CHECK(three->count == 3);
    CHECK(three->mean == 2);
    REQUIRE(three->ci95);
    CHECK(*three->ci95 == doctest::Approx(4.3027 / std::sqrt(3.0)));  // s = 1, two degrees of freedom
    CHECK_FALSE(spread(std::span(values).first(3))->ci95);
    CHECK(student_t_975(1) == doctest::Approx(12.706).epsilon(1e-4));
    CHECK(student_t_975(10) == doctest::Approx(2.2281).epsilon(1e-4));
    CHECK(student_t_975(30) == doctest::Approx(2.0423).epsilon(1e-4));
    CHECK(student_t_975(1000000) == doctest::Approx(1.95996).epsilon(1e-4));
  }

  TEST_CASE("without a dense run the best one sets the target, and without evaluations there is none") {
    Example example;
    auto runs = example.runs();
    runs.erase(runs.begin());
    CHECK(*compare(runs).target == doctest::Approx(0.95 * 0.76));
    for (Run& run : runs) run.evals.clear();
    const Comparison comparison = compare(runs);
    CHECK_FALSE(comparison.target);
    CHECK(comparison.metric.key == "loss");
  }

  TEST_CASE("differences list the keys that make the groups differ, not seeds and logging") {
    Example example;
    const Comparison comparison = compare(example.runs());
    REQUIRE(comparison.differences.size() == 1);
    CHECK(comparison.differences[0].key == "compression.method");
    CHECK(comparison.differences[0].values == std::vector<std::string>{"dense", "topk"});
  }

  TEST_CASE("folders of one name are told apart by their parents, and a folder given twice is refused") {
    Example example;
    std::vector<Run> runs{example.make("a/run", "dense", 1, {0.1, 0.2}, 1, 1),
                          example.make("b/run", "topk", 1, {0.1, 0.2}, 1, 1)};
    const Comparison comparison = compare(runs);
    CHECK(comparison.groups[0].label == "a/run");
    CHECK(comparison.groups[1].label == "b/run");
    runs.push_back(runs.front());
    CHECK_THROWS_AS(compare(runs), ConfigError);
    CHECK_THROWS_AS(compare({}), ConfigError);
  }

  TEST_CASE("a group's curve has the steps of all its runs, with mean and extremes") {
    Example example;
    auto runs = example.runs();
    runs[2].steps.erase(runs[2].steps.begin());
    const Comparison comparison = compare(std::move(runs));
    const Curve loss = step_curve(comparison.groups[1], &StepPoint::loss);
    REQUIRE(loss.step == std::vector<double>{20});
    CHECK(loss.low[0] == doctest::Approx(2.0 / 3));
    CHECK(loss.high[0] == 1.0);
    CHECK(loss.bytes[0] == 200);
    CHECK(metric_curve(comparison.groups[1], comparison.metric).step == std::vector<double>{10, 20});
    CHECK(step_curve(comparison.groups[1], &StepPoint::density_local).empty());
    CHECK(seconds_by_part(comparison.groups[1].runs).at("exchange") == 0.5);
  }

  TEST_CASE("a long curve is thinned to means of neighbours") {
    Group group;
    group.runs.resize(1);
    for (std::size_t i = 0; i < 2 * kMaxPoints; ++i) {
      StepPoint point;
      point.step = static_cast<double>(i);
      point.loss = static_cast<double>(i % 2);
      group.runs[0].steps.push_back(point);
    }
    const Curve curve = step_curve(group, &StepPoint::loss);
    CHECK(curve.step.size() == kMaxPoints);
    CHECK(curve.step[1] == 2.5);
    CHECK(curve.mean[1] == 0.5);
  }

  TEST_CASE("the CSV has a row per run, with empty cells for what is not known") {
    Example example;
    const std::string csv = runs_csv(compare(example.runs()));
    CHECK(csv.starts_with("run,group,method,seed,workers,backend,final_accuracy,best_accuracy,"));
    CHECK(csv.find("\ndense,dense,dense,1,4,local,0.8,0.8,2,1,") != std::string::npos);
    CHECK(csv.find("\ntopk-seed1,topk,topk,1,4,local,0.75,0.75,2,1,0.76,,,,20,21.5,200,10,200,,0.5,,,,,,,,0,0,2,,wall,,"
                   ",,,,,,,,,\n") != std::string::npos);
    const std::string curves = curves_csv(compare(example.runs()));
    CHECK(curves.find("\ndense,step,10,1,10,10000,2,,,,,,,,,,,,\n") != std::string::npos);
    CHECK(curves.find("\ndense,eval,20,2,20,20000,1.5,0.8,,,,,,,,,,,\n") != std::string::npos);
  }

  TEST_CASE("the CSV of groups has mean and range over the seeds, and none of arrivals that some run missed") {
    Example example;
    const std::string csv = groups_csv(compare(example.runs(), {.target = 0.76}));
    CHECK(csv.starts_with("group,runs,method,workers,backend,target_accuracy,clock,"));
    CHECK(csv.find(",network_compute,final_accuracy_mean,final_accuracy_low,final_accuracy_high,") !=
          std::string::npos);
    CHECK(csv.find("\ndense,1,dense,4,local,0.76,wall,,,,0.8,0.8,0.8,") != std::string::npos);
    CHECK(csv.find("\ntopk,2,topk,4,local,0.76,wall,,,,0.76,0.75,0.77,0.76,0.75,0.77,2,2,2,") != std::string::npos);
    CHECK(csv.find(",1,,,,,,,,,,20,20,20,") != std::string::npos);  // steps, seconds and bytes to target, then steps
  }

  TEST_CASE("a warning that seeds share but for its numbers stands once, with the runs that have it") {
    Example example;
    std::vector<Run> runs = example.runs();
    runs[1].warnings = {"sends 10 bytes", "is late"};
    runs[2].warnings = {"sends 11.5 bytes"};
    const Comparison comparison = compare(std::move(runs));
    CHECK(comparison.warnings ==
          std::vector<std::string>{"topk-seed1, topk-seed2: sends 10 bytes", "topk-seed1: is late"});
  }

  TEST_CASE("the JSON has an object per group, and after it its runs") {
    Example example;
    const auto json = nlohmann::json::parse(comparison_json(compare(example.runs(), {.target = 0.76})));
    REQUIRE(json.size() == 5);
    CHECK(json[0].at("kind") == "group");
    CHECK(json[1].at("run") == "dense");
    const nlohmann::json& group = json[2];
    CHECK(group.at("group") == "topk");
    CHECK(group.at("runs") == nlohmann::json{"topk-seed1", "topk-seed2"});
    CHECK(group.at("seeds") == nlohmann::json{1, 2});
    CHECK(group.at("is_dense") == false);
    CHECK(group.at("workers") == 4);
    CHECK(group.at("final_accuracy").at("low") == 0.75);
    CHECK(group.at("final_accuracy").at("high") == 0.77);
    CHECK(group.at("final_accuracy").at("count") == 2);
    CHECK(group.at("final_accuracy").at("ci95").is_null());
    CHECK(group.at("seconds_to_target").is_null());  // seed 1 missed it
    CHECK(json[3].at("kind") == "run");
    CHECK(json[3].at("seed") == 1);
    CHECK(json[3].at("seconds_to_target").is_null());
    CHECK(json[4].at("seconds_to_target") == 20);
  }

  TEST_CASE("the CSV says what the traffic was made of, as means over the steps that know") {
    TemporaryFolder folder;
    FakeRun fake(folder.path() / "run");
    fake.line(
            R"({"kind":"step","step":1,"messages":{"mean":6,"max":9},"padding_overhead":1.5,"imbalance":2,"drift":1})")
        .line(
            R"({"kind":"step","step":2,"messages":{"mean":10,"max":10},"padding_overhead":2.5,"lost_mass":0.25,"bits_per_entry":38.5,"utilization":0.75,"drift":2})");
    const Comparison comparison = compare({load_run(fake.folder())});
    const std::string runs = runs_csv(comparison), curves = curves_csv(comparison);
    CHECK(runs.find(",messages_per_step,density_mean,") != std::string::npos);
    CHECK(runs.find(",8,,") != std::string::npos);
    CHECK(runs.find(",padding_overhead,imbalance,select_seconds,") != std::string::npos);
    CHECK(runs.find(",2,2,") != std::string::npos);
    CHECK(runs.ends_with(",38.5,0.75,1.5\n"));
    CHECK(curves.find(",messages,padding_overhead,imbalance,lost_mass,ideal_seconds\n") != std::string::npos);
    CHECK(curves.find(",6,1.5,2,,\n") != std::string::npos);
    CHECK(curves.find(",10,2.5,,0.25,\n") != std::string::npos);
  }
}

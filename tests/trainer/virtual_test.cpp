// SPDX-License-Identifier: MIT
/// Runs on a virtual cluster.
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "tests/trainer/quick_run.h"

namespace dragonn::trainer::testing {
namespace {

using Json = nlohmann::json;
using Overrides = std::vector<std::string>;

constexpr double kLatency = 250e-6;
constexpr double kBytesPerSecond = 1e7;

/// @param slower how many times latency and bandwidth are worse.
Overrides on_network(double slower, Overrides more = {}) {
  more.insert(more.end(), {"network.model=alpha-beta", fmt::format("network.latency_us={}", slower * kLatency * 1e6),
                           fmt::format("network.gbps={}", kBytesPerSecond * 8 / 1e9 / slower)});
  return more;
}

Overrides zero_compute(double slower, Overrides more = {}) {
  more.push_back("network.compute=zero");
  return on_network(slower, std::move(more));
}

struct VirtualRun {
  std::vector<Json> steps;
  std::vector<Json> evaluations;
  Json summary;
  std::vector<double> times() const {
    std::vector<double> result;
    for (const Json& step : steps) result.push_back(step.at("time"));
    return result;
  }
  std::vector<double> losses() const {
    std::vector<double> result;
    for (const Json& step : steps) result.push_back(step.at("loss"));
    return result;
  }
};

VirtualRun read_run(const std::filesystem::path& folder) {
  VirtualRun run;
  std::ifstream lines(folder / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line);
    (json.at("kind") == "step" ? run.steps : run.evaluations).push_back(std::move(json));
  }
  run.summary = Json::parse(read_text_file(folder / "summary.json"));
  return run;
}

VirtualRun run_of(int world, const Overrides& overrides) {
  const TemporaryFolder folder;
  quick_run(quick_config(overrides), world, folder.path());
  return read_run(folder.path());
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("virtual: a step takes what the formula of its exchange says, with any number of workers") {
    for (const int world : {1, 4, 32}) {
      const Overrides model{"compression.bucket=model", "data.train_samples=576"};
      const VirtualRun run = run_of(world, zero_compute(1, model));
      const double bytes = run.steps[0].at("bytes_sent").at("mean");
      const double step = 2 * (world - 1) * kLatency + bytes / kBytesPerSecond;  // a ring's
      REQUIRE(run.steps.size() == 6);
      for (std::size_t i = 0; i < run.steps.size(); ++i) {
        // Chunks of a ring differ by one element.
        CHECK(run.steps[i].at("time").get<double>() == doctest::Approx(step * (i + 1.0)).epsilon(0.01));
        const Json& seconds = run.steps[i].at("seconds");
        CHECK(seconds.value("exchange", 0.0) == doctest::Approx(step).epsilon(0.01));
        CHECK(seconds.size() == (world > 1 ? 1 : 0));  // nothing else takes time
      }
      CHECK(run.summary.at("time") == "virtual");
      CHECK(run.summary.at("seconds_total") == run.steps.back().at("time"));
    }
  }

  TEST_CASE("virtual: the network changes times, and nothing else") {
    for (const char* method : {"dense", "gtopk", "oktopk"}) {
      CAPTURE(method);
      const Overrides base{std::string("compression.method=") + method, "compression.bucket=model"};
      const VirtualRun real = run_of(4, base);
      const VirtualRun fast = run_of(4, zero_compute(1, base));
      const VirtualRun slow = run_of(4, zero_compute(10, base));
      CHECK(real.summary.at("time") == "wall");
      CHECK(fast.losses() == real.losses());
      CHECK(slow.losses() == real.losses());
      CHECK(fast.summary.at("parameters_hash") == real.summary.at("parameters_hash"));
      CHECK(slow.summary.at("parameters_hash") == real.summary.at("parameters_hash"));
      for (std::size_t i = 0; i < fast.steps.size(); ++i) {
        // Rounding alone: every time is a sum of products of the network's numbers.
        CHECK(slow.times()[i] == doctest::Approx(10 * fast.times()[i]).epsilon(1e-9));
      }
    }
  }

  TEST_CASE("virtual: without compute every run has the same times") {
    const Overrides overrides = zero_compute(1, {"compression.method=oktopk"});
    const std::vector<double> first = run_of(5, overrides).times();
    CHECK(run_of(5, overrides).times() == first);
  }

  TEST_CASE("virtual: evaluations, checkpoints and metrics take no time") {
    const VirtualRun bare = run_of(3, zero_compute(1, {"logging.every_steps=6"}));
    const VirtualRun busy = run_of(
        3, zero_compute(1, {"train.eval_every_epochs=1", "data.train_samples=18", "train.epochs=3",
                            "checkpoint.every_steps=1", "train.replica_check_every=1", "logging.dump_gradients=[2]"}));
    REQUIRE(busy.steps.size() == 6);
    CHECK(busy.steps.back().at("time") == bare.steps.back().at("time"));
    CHECK(busy.evaluations.size() == 3);
    CHECK(busy.evaluations[0].at("time") == busy.steps[1].at("time"));
  }

  TEST_CASE("virtual: a resumed run goes on where the clock of every rank stood") {
    for (const char* method : {"dense", "gtopk"}) {
      const Overrides overrides = zero_compute(1, {std::string("compression.method=") + method});
      const VirtualRun whole = run_of(3, overrides);
      const TemporaryFolder folder;
      Config config = quick_config(overrides);
      config.train.max_steps = 2;
      quick_run(config, 3, folder.path());
      config.train.max_steps = 6;
      quick_run(config, 3, folder.path(), "auto");
      CHECK(read_run(folder.path()).times() == whole.times());
    }
  }

  TEST_CASE("virtual: measured work is in the times, by verb") {
    const VirtualRun run = run_of(3, on_network(1));
    const VirtualRun zero = run_of(3, zero_compute(1));
    CHECK(run.steps[0].at("seconds").at("forward") > 0);
    CHECK(run.steps[0].at("seconds").at("backward") > 0);
    CHECK(run.times().back() > zero.times().back());
    CHECK(run.losses() == zero.losses());
  }

  TEST_CASE("virtual: a config whose times would not be true is refused") {
    CHECK_THROWS_WITH_AS(local_options(quick_config(on_network(1, {"comm.threads_per_worker=2"}))),
                         "network.compute = \"measured\" does not go with comm.threads_per_worker = 2: a virtual "
                         "cluster sees the work of one thread per worker; expected 1, or network.compute = \"zero\"",
                         ConfigError);
    CHECK(local_options(quick_config(zero_compute(1, {"comm.threads_per_worker=2"}))).network);
    CHECK_FALSE(local_options(quick_config()).network);
    CHECK_THROWS_AS(quick_config({"network.compute=zero"}), ConfigError);
    CHECK_THROWS_AS(quick_config(on_network(1, {"network.compute=none"})), ConfigError);
  }
}

}  // namespace dragonn::trainer::testing

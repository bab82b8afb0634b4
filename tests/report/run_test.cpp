// SPDX-License-Identifier: MIT
#include "report/run.h"

#include <string>

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/core/temporary_folder.h"
#include "tests/report/fake_run.h"

namespace {

using namespace dragonn;
using namespace dragonn::report;
using dragonn::test::TemporaryFolder;

/// The message of the Kind that loading throws, or "".
template <class Kind>
std::string error_of(const std::filesystem::path& folder) {
  try {
    load_run(folder);
  } catch (const Kind& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("a run folder is read as it was written") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    fake.config("topk", 3).step(10, 2.0).eval(10, 0.5).step(20, 1.0).eval(20, 0.75).summary(640, R"(["slow network"])");
    const Run run = load_run(fake.folder());
    CHECK(run.name == "a");
    CHECK(run.config.at("compression.method") == "topk");
    CHECK(run.config.at("seed") == "3");
    CHECK(run.config.at("logging.every_steps") == "3");
    CHECK_FALSE(run.is_dense());
    REQUIRE(run.steps.size() == 2);
    CHECK(run.steps[1].loss == 1.0);
    CHECK(run.steps[1].bytes == 2000);
    CHECK(run.steps[1].seconds.at("exchange") == 0.5);
    CHECK_FALSE(run.steps[1].density_local);
    REQUIRE(run.evals.size() == 2);
    CHECK(run.evals[1].metrics.at("accuracy") == 0.75);
    REQUIRE(run.summary);
    CHECK(run.summary->throughput == 640.0);
    CHECK_FALSE(run.summary->bytes_sent_total);
    CHECK(run.warnings == std::vector<std::string>{"slow network"});
  }

  TEST_CASE("texts of a run folder lose what moves a cursor") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    fake.config("topk\x1b[2J", 3).step(10, 2.0).summary(640, R"(["slow\u001b[2J\nnetwork"])");
    const Run run = load_run(fake.folder());
    CHECK(run.config.at("compression.method") == "topk?[2J");
    CHECK(run.warnings == std::vector<std::string>{"slow?[2J?network"});
  }

  TEST_CASE("bytes at an evaluation are taken between step lines, and beyond the last one") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    fake.eval(5, 0.1).step(10, 2.0).eval(15, 0.2).step(20, 1.0).eval(25, 0.3);
    const Run run = load_run(fake.folder());
    REQUIRE(run.evals.size() == 3);
    CHECK(run.evals[0].bytes == 500);
    CHECK(run.evals[1].bytes == 1500);
    CHECK(run.evals[2].bytes == 2500);
  }

  TEST_CASE("without a running total, a step line stands for the steps since the line before") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    fake.line(R"({"kind":"step","step":10,"loss":1,"bytes_sent":7})")
        .line(R"({"kind":"step","step":30,"loss":null,"bytes_sent":{"mean":2,"max":3}})");
    const Run run = load_run(fake.folder());
    CHECK(run.steps[0].bytes == 70);
    CHECK(run.steps[1].bytes == 110);
    CHECK_FALSE(run.steps[1].loss);
  }

  TEST_CASE("a torn last line is left out with a warning, a broken line inside is an error with its number") {
    TemporaryFolder temporary;
    FakeRun torn(temporary / "torn");
    torn.step(10, 2.0).raw(R"({"kind":"step","st)").summary(1);
    const Run run = load_run(torn.folder());
    CHECK(run.steps.size() == 1);
    REQUIRE(run.warnings.size() == 1);
    CHECK(run.warnings[0].find("cut short") != std::string::npos);

    FakeRun broken(temporary / "broken");
    broken.step(10, 2.0).line(R"({"kind":"step","st)").step(20, 1.0);
    const std::string message = error_of<DataError>(broken.folder());
    CHECK(message.find("metrics.jsonl:2: broken line: expected a JSON object") != std::string::npos);
    CHECK(error_of<DataError>(FakeRun(temporary / "list").line("[1]").folder()).find(":1:") != std::string::npos);
  }

  TEST_CASE("a broken summary is an error with file and line, a missing one a warning") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    fake.step(10, 2.0);
    CHECK(load_run(fake.folder()).warnings.size() == 1);
    fake.write("summary.json", "{\n  \"steps\": 3,\n  oops\n}\n");
    CHECK(error_of<DataError>(fake.folder()).find("summary.json:3: broken JSON") != std::string::npos);
    fake.write("summary.json", "{\"steps\": 1e999}");
    CHECK(error_of<DataError>(fake.folder()).find("a number that no double holds") != std::string::npos);
    fake.write("summary.json", "{\"warnings\": " + std::string(200'000, '[') + std::string(200'000, ']') + "}");
    CHECK(load_run(fake.folder()).warnings.empty());  // nested lists are no recursion
  }

  TEST_CASE("a folder that is missing or is no run is an error of usage") {
    TemporaryFolder temporary;
    CHECK(error_of<ConfigError>(temporary / "none").find("no such run folder") != std::string::npos);
    CHECK(error_of<ConfigError>(temporary.path()).find("it has no metrics.jsonl") != std::string::npos);
  }

  TEST_CASE("steps that a resumed run repeats count once, the later line") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    fake.step(10, 3.0).step(20, 2.0).eval(20, 0.1).step(10, 2.5).step(20, 1.5).eval(20, 0.2);
    const Run run = load_run(fake.folder());
    REQUIRE(run.steps.size() == 2);
    CHECK(run.steps[0].loss == 2.5);
    REQUIRE(run.evals.size() == 1);
    CHECK(run.evals[0].metrics.at("accuracy") == 0.2);
  }

  TEST_CASE("evaluations of the test split are preferred") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    fake.eval(10, 0.3, "validation").eval(10, 0.2, "test");
    const Run run = load_run(fake.folder());
    REQUIRE(run.evals.size() == 1);
    CHECK(run.evals[0].split == "test");
  }

  TEST_CASE("the second clock and the network are read where a run has them") {
    TemporaryFolder temporary;
    FakeRun fake(temporary / "a");
    fake.config("topk", 1).both(10, 0.5, 30, 12).virtual_summary(0.1);
    const Run run = load_run(fake.folder());
    CHECK(run.steps[0].time == 30);
    CHECK(run.steps[0].time_ideal == 12.0);
    CHECK(run.evals[0].time_ideal == 12.0);
    CHECK(run.evals[0].metrics.size() == 1);  // the clock is no quality
    CHECK(run.is_virtual());
    CHECK(run.network() == Network{0.1, 100.0, "measured", ""});

    FakeRun wall(temporary / "b");
    wall.config("topk", 1, "[network]\nmodel = \"alpha-beta\"\ngbps = 1.0\n").step(10, 1.0).summary(1);
    CHECK_FALSE(load_run(wall.folder()).steps[0].time_ideal);
    CHECK_FALSE(load_run(wall.folder()).network());  // under MPI the model delays nothing
  }

  TEST_CASE("without a summary the network is the config's, as far as the config names it") {
    TemporaryFolder temporary;
    FakeRun lasts(temporary / "a"), preset(temporary / "b");
    lasts
        .config("topk", 1,
                "[network]\nmodel = \"alpha-beta\"\npreset = \"none\"\nlatency_us = 100.0\ngbps = 0.1\n"
                "compute = \"zero\"\n")
        .both(10, 0.5, 30, 12);
    CHECK(load_run(lasts.folder()).network() == Network{0.1, 100.0, "zero", ""});
    preset
        .config("topk", 1,
                "[network]\nmodel = \"alpha-beta\"\npreset = \"1gbe\"\nlatency_us = \"auto\"\ngbps = \"auto\"\n"
                "compute = \"measured\"\n")
        .summary(1, "[]", "virtual")
        .step(10, 1.0);
    CHECK(load_run(preset.folder()).network() == Network{{}, {}, "measured", "1gbe"});
  }
}

// SPDX-License-Identifier: MIT
/// Runs whose lists are coded in messages.
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/trainer/quick_run.h"
#include "trainer/config/methods.h"

namespace dragonn::trainer::testing {
namespace {

QuickResult coded_run(const std::string& method, const std::string& indices, int workers,
                      std::vector<std::string> overrides = {}) {
  const TemporaryFolder folder;
  overrides.push_back("compression.method=" + method);
  overrides.push_back("compression.codec.indices=" + indices);
  return quick_run(quick_config(overrides), workers, folder.path());
}

TEST_SUITE("trainer") {
  TEST_CASE("a codec of indices changes no bit of a run, with any method") {
    for (const std::string& method : method_names()) {
      CAPTURE(method);
      const std::vector<float> expected = coded_run(method, codec::kRawIndices, 3).parameters;
      for (const char* indices : {"rice", "smallest"}) {
        CAPTURE(indices);
        CHECK(coded_run(method, indices, 3).parameters == expected);
      }
    }
    for (const std::string& indices : Registry<codec::IndexCodecEntry>::instance().names()) {
      CAPTURE(indices);
      for (const char* method : {"topk", "gtopk", "oktopk"}) {
        const std::vector<float> expected = coded_run(method, codec::kRawIndices, 2, {"train.max_steps=3"}).parameters;
        CHECK(coded_run(method, indices, 2, {"train.max_steps=3"}).parameters == expected);
      }
    }
  }

  TEST_CASE("lossy values: replicas stay equal, and a resumed run equals an uninterrupted one") {
    for (const char* method : {"topk", "gtopk", "oktopk", "dsa", "dgc"}) {
      for (const char* values : {"float16", "int4", "bins2", "levels"}) {
        CAPTURE(method);
        CAPTURE(values);
        const std::vector<std::string> overrides{std::string("compression.codec.values=") + values};
        const auto run = [&](const std::string& steps, const std::filesystem::path& folder, const std::string& resume) {
          std::vector<std::string> all = overrides;
          all.push_back(std::string("compression.method=") + method);
          all.push_back("train.max_steps=" + steps);
          return quick_run(quick_config(all), 3, folder, resume).parameters;
        };
        const TemporaryFolder whole, parts;
        const std::vector<float> expected = run("6", whole.path(), "");
        run("3", parts.path(), "");
        CHECK(run("6", parts.path(), "auto") == expected);
        CHECK(coded_run(method, "raw32", 3).parameters != expected);
      }
    }
  }

  TEST_CASE("the lines of a run say how many bits an entry takes") {
    for (const auto& [values, least, most] : {std::tuple("float32", 64.0, 64.0), std::tuple("int8", 12.0, 40.0)}) {
      CAPTURE(values);
      const TemporaryFolder folder;
      quick_run(quick_config({"compression.method=gtopk", std::string("compression.codec.values=") + values}), 3,
                folder.path());
      std::ifstream lines(folder.path() / "metrics.jsonl");
      std::size_t steps = 0;
      for (std::string line; std::getline(lines, line);) {
        const auto json = nlohmann::json::parse(line);
        if (json.at("kind") != "step") continue;
        ++steps;
        CHECK(json.at("bits_per_entry") >= least);
        CHECK(json.at("bits_per_entry") <= most);
      }
      CHECK(steps == 6);
    }
  }

  TEST_CASE("collectives without lists of values refuse lossy ones, and say what fits") {
    for (const char* method : {"index_union", "cltk", "exdyna"}) {
      CAPTURE(method);
      const std::vector<std::string> overrides{std::string("compression.method=") + method,
                                               "compression.codec.values=int8"};
      CHECK_THROWS_WITH_AS(quick_config(overrides), doctest::Contains("valid: float32; or one of the collectives"),
                           ConfigError);
    }
    const RunSpec config =
        quick_config({"compression.method=topk", "compression.codec.values=sign", "compression.codec.sign.group=64"});
    CHECK(config.rules.coding.name() == "smallest x sign");
    CHECK(config.rules.coding.values.settings.integer("group") == 64);
  }

  TEST_CASE("methods send what their papers send unless a config says otherwise") {
    for (const std::string& method : method_names()) {
      CAPTURE(method);
      CHECK(quick_config({"compression.method=" + method}).compression.coding().is_raw());
    }
    const RunSpec config = quick_config({"compression.method=topk", "compression.codec.indices=rice"});
    CHECK(config.rules.coding.name() == "rice x float32");
    CHECK_THROWS_WITH_AS(quick_config({"compression.codec.indices=ryce"}), doctest::Contains("rice"), ConfigError);
    CHECK_THROWS_WITH_AS(quick_config({"compression.codec=rice"}), doctest::Contains("indices, values"), ConfigError);
  }
}

}  // namespace
}  // namespace dragonn::trainer::testing

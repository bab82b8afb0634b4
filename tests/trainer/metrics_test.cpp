// SPDX-License-Identifier: MIT
#include "trainer/metrics.h"

#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/trainer/quick_run.h"

namespace dragonn::trainer::testing {

TEST_SUITE("trainer") {
  TEST_CASE("an exact method selects the k of its step lines, each rank alone or all together") {
    for (const char* method : {"topk", "cltk"}) {
      CAPTURE(method);
      const TemporaryFolder folder;
      quick_run(quick_config({std::string("compression.method=") + method}), 3, folder.path());
      std::ifstream lines(folder.path() / "metrics.jsonl");
      std::size_t steps = 0;
      for (std::string line; std::getline(lines, line);) {
        const auto json = nlohmann::json::parse(line);
        if (json.at("kind") != "step") continue;
        ++steps;
        const auto selected = json.at("selected").get<std::vector<double>>();
        // k is rounded where the ranks share it; Approx tells integers of this size apart.
        CHECK(json.at("k").get<double>() * 3 ==
              doctest::Approx(std::accumulate(selected.begin(), selected.end(), 0.0)));
      }
      CHECK(steps == 6);
    }
  }
}

}  // namespace dragonn::trainer::testing

// SPDX-License-Identifier: MIT
/// Runs whose lists are coded in messages.
#include <string>
#include <vector>

#include <doctest/doctest.h>

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

// SPDX-License-Identifier: MIT
/// Tests that the configs of the project are valid.
#include <string>

#include <doctest/doctest.h>

#include "tests/house/source_tree.h"
#include "trainer/config/config.h"

namespace dragonn::test {
namespace {

TEST_SUITE("house") {
  TEST_CASE("every config loads, and its resolved form loads to the same") {
    const auto configs = files_in("configs", {".toml"});
    CHECK_FALSE(configs.empty());
    for (const std::string& file : configs) {
      INFO(file);
      trainer::RunSpec config;
      REQUIRE_NOTHROW(config = trainer::load_config(source_root() / file));
      const std::string resolved = trainer::to_toml(config);
      CHECK(trainer::to_toml(trainer::parse_config(resolved, "resolved")) == resolved);
    }
  }
}

}  // namespace
}  // namespace dragonn::test

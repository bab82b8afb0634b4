// SPDX-License-Identifier: MIT
#include "core/settings.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "core/error.h"

namespace dragonn {
namespace {

SettingSpecs example() {
  SettingSpecs specs;
  specs.push_back({.name = "flag", .default_value = false, .help = "a switch"});
  specs.push_back({.name = "workers", .default_value = std::int64_t{4}, .help = "ranks", .minimum = 1, .maximum = 64});
  specs.push_back({.name = "density",
                   .default_value = 0.01,
                   .help = "share",
                   .minimum = 0,
                   .maximum = 1,
                   .exclusive_minimum = true});
  specs.push_back({.name = "mode", .default_value = std::string("ring"), .help = "how", .choices = {"ring", "tree"}});
  specs.push_back({.name = "milestones", .default_value = std::vector<std::int64_t>{}, .help = "epochs", .minimum = 0});
  specs.push_back({.name = "factors", .default_value = std::vector<double>{1.0}, .help = "factors", .maximum = 2});
  return specs;
}

TEST_SUITE("core") {
  TEST_CASE("settings start at their defaults and keep what is set") {
    Settings settings(example());
    CHECK_FALSE(settings.flag("flag"));
    CHECK(settings.integer("workers") == 4);
    CHECK(settings.number("density") == 0.01);
    settings.set("flag", true);
    settings.set("density", 1.0);
    settings.set("mode", std::string("tree"));
    settings.set("milestones", std::vector<std::int64_t>{3, 5});
    CHECK(settings.flag("flag"));
    CHECK(settings.number("density") == 1.0);
    CHECK(settings.text("mode") == "tree");
    CHECK(settings.integers("milestones") == std::vector<std::int64_t>{3, 5});
  }

  TEST_CASE("an integer is a number where a number is declared, never the other way") {
    Settings settings(example());
    settings.set("density", std::int64_t{1});
    CHECK(settings.number("density") == 1.0);
    settings.set("factors", std::vector<std::int64_t>{1, 2});
    CHECK(settings.numbers("factors") == std::vector<double>{1, 2});
    CHECK_THROWS_AS(settings.set("workers", 2.0), ConfigError);
    CHECK_THROWS_AS(settings.set("milestones", std::vector<double>{2.0}), ConfigError);
    settings.set("milestones", std::vector<double>{});  // an empty list has no type of its own
    CHECK(settings.integers("milestones").empty());
  }

  TEST_CASE("a value outside of the declaration is refused with the key, the value and what is valid") {
    Settings settings(example());
    CHECK_THROWS_WITH_AS(settings.set("density", 0.0), "density = 0.0: expected number in (0, 1]", ConfigError);
    // Factors have no minimum, and are still finite.
    CHECK_THROWS_AS(settings.set("factors", std::vector<double>{-std::numeric_limits<double>::infinity()}),
                    ConfigError);
    CHECK_THROWS_AS(settings.set("density", 1.5), ConfigError);
    CHECK_THROWS_AS(settings.set("density", std::nan("")), ConfigError);
    CHECK_THROWS_WITH_AS(settings.set("workers", std::int64_t{0}), "workers = 0: expected integer in [1, 64]",
                         ConfigError);
    CHECK_THROWS_WITH_AS(settings.set("mode", std::string("star")),
                         "mode = \"star\": expected string, one of ring | tree", ConfigError);
    CHECK_THROWS_WITH_AS(settings.set("milestones", std::vector<std::int64_t>{4, -1}),
                         "milestones = [4, -1]: expected list of integers of at least 0", ConfigError);
    CHECK_THROWS_AS(settings.set("factors", std::vector<double>{1, 2.5}), ConfigError);
    CHECK_THROWS_AS(settings.set("flag", std::int64_t{1}), ConfigError);
    CHECK(settings.number("density") == 0.01);  // a refused value changes nothing
  }

  TEST_CASE("an unknown name is refused with the nearest and all valid names") {
    Settings settings(example());
    CHECK_THROWS_WITH_AS(settings.set("densty", 0.1),
                         "unknown setting 'densty'; did you mean 'density'? "
                         "valid: flag, workers, density, mode, milestones, factors",
                         ConfigError);
    CHECK(unknown_name_message("model", "zzzzzz", {"mlp", "vgg16"}) == "unknown model 'zzzzzz'; valid: mlp, vgg16");
    CHECK(nearest_name("vg16", {"mlp", "vgg16", "vgg19"}) == "vgg16");
    CHECK_FALSE(nearest_name("resnet20", {"mlp", "vgg16"}).has_value());
    CHECK_FALSE(nearest_name("x", {}).has_value());
  }

  TEST_CASE("a value or name of megabytes is shown by its beginning, and controls in a value are escaped") {
    Settings settings(example());
    const std::string huge(5'000'000, 'x');
    for (const auto& [name, value] : {std::pair(std::string("mode"), huge), std::pair(huge, std::string("ring"))}) {
      try {
        settings.set(name, value);
        FAIL("no error");
      } catch (const ConfigError& error) {
        const std::string message = error.what();
        CHECK(message.size() < 300);
        CHECK(message.find("xxx...") != std::string::npos);
      }
    }
    CHECK(to_toml(std::string("\x1b[2J\x7f")) == "\"\\u001B[2J\\u007F\"");
  }

  TEST_CASE("values are written as TOML reads them") {
    CHECK(to_toml(true) == "true");
    CHECK(to_toml(std::int64_t{-3}) == "-3");
    CHECK(to_toml(1.0) == "1.0");
    CHECK(to_toml(0.1) == "0.1");
    CHECK(to_toml(1e-4) == "0.0001");
    CHECK(to_toml(1e300) == "1e+300");
    CHECK(to_toml(std::numeric_limits<double>::infinity()) == "inf");
    CHECK(to_toml(std::string("a \"b\"\\\n")) == "\"a \\\"b\\\"\\\\\\n\"");
    CHECK(to_toml(std::vector<std::int64_t>{1, 2}) == "[1, 2]");
    CHECK(to_toml(std::vector<double>{1, 0.5}) == "[1.0, 0.5]");
  }
}

}  // namespace
}  // namespace dragonn

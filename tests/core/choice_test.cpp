// SPDX-License-Identifier: MIT
#include "core/choice.h"

#include <doctest/doctest.h>

namespace dragonn::test {
namespace {

enum class Fruit { kPear, kApple, kPlum };
constexpr auto choices(Fruit) {
  return std::array{"pear", "apple", "plum"};
}

enum class Nameless { kNone };

static_assert(Choice<Fruit> && !Choice<Nameless> && !Choice<int>);

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("a choice has the names that stand beside it, in the order of its values") {
    CHECK(choice_names<Fruit>() == std::vector<std::string>{"pear", "apple", "plum"});
    for (const Fruit fruit : {Fruit::kPear, Fruit::kApple, Fruit::kPlum}) {
      CHECK(choice_of<Fruit>("fruit", name_of(fruit)) == fruit);
    }
    CHECK(name_of(Fruit::kPlum) == "plum");
  }

  TEST_CASE("a name that is no choice is refused, with the nearest and all valid ones") {
    CHECK_THROWS_WITH_AS(choice_of<Fruit>("fruit", "aple"),
                         "unknown fruit 'aple'; did you mean 'apple'? valid: apple, pear, plum", ConfigError);
    CHECK_THROWS_AS(choice_of<Fruit>("fruit", ""), ConfigError);
  }
}

}  // namespace dragonn::test

// SPDX-License-Identifier: MIT
#include "core/units_text.h"

#include <doctest/doctest.h>

using namespace dragonn;

TEST_SUITE("core") {
  TEST_CASE("the columns of a table are aligned by characters, and end without blanks") {
    CHECK(table_lines({{"name", "size", "kind"}, {"Größe", "1", "a"}, {"b", "23", "long"}}, "<><") ==
          std::vector<std::string>{"name   size  kind", "Größe     1  a", "b        23  long"});
  }

  TEST_CASE("a table that is too wide has shorter names, but not shorter than 8 characters") {
    const std::vector<std::vector<std::string>> rows{{"run", "final"}, {"a-very-long-name", "12"}};
    CHECK(table_lines(rows, "<>", 17) == std::vector<std::string>{"run         final", "a-very-...     12"});
    CHECK(table_lines(rows, "<>", 5) == std::vector<std::string>{"run       final", "a-ver...     12"});
  }
}

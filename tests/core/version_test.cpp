// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "core/hash.h"
#include "core/program.h"

namespace dragonn {
namespace {

TEST_SUITE("core") {
  TEST_CASE("a build knows its version") {
    CHECK_FALSE(version().empty());
    CHECK(version().find('@') == std::string_view::npos);
  }

  TEST_CASE("hashes are XXH3 of 64 bits, as 16 digits") {
    CHECK(hash_text(hash_bytes({})) == "2d06800538d394c2");  // the reference implementation's hash of nothing
    CHECK(hash_text(1) == "0000000000000001");
  }
}

}  // namespace
}  // namespace dragonn

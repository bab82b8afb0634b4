// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "core/rng.h"
#include "data/speech/transcripts.h"

namespace dragonn::data {
namespace {

/// Computes the distance by the recursive definition.
std::size_t distance_by_definition(std::string_view a, std::string_view b) {
  if (a.empty()) return b.size();
  if (b.empty()) return a.size();
  const std::size_t same = distance_by_definition(a.substr(1), b.substr(1)) + (a[0] == b[0] ? 0 : 1);
  return std::min({same, distance_by_definition(a.substr(1), b) + 1, distance_by_definition(a, b.substr(1)) + 1});
}

TEST_SUITE("data") {
  TEST_CASE("edit distances are those of the definition") {
    CHECK(character_errors("kitten", "sitting").errors == 3);
    CHECK(character_errors("", "abc").errors == 3);
    CHECK(character_errors("abc", "").errors == 3);
    CHECK(character_errors("", "").errors == 0);
    Rng rng(1);
    for (int i = 0; i < 50; ++i) {
      std::string a, b;
      for (std::uint64_t n = rng.below(7); n > 0; --n) a += static_cast<char>('a' + rng.below(3));
      for (std::uint64_t n = rng.below(7); n > 0; --n) b += static_cast<char>('a' + rng.below(3));
      CAPTURE(a);
      CAPTURE(b);
      CHECK(character_errors(a, b).errors == distance_by_definition(a, b));
    }
  }

  TEST_CASE("error rates count characters and words of the true text") {
    const TextErrors characters = character_errors("ONE TWO", "ONE TOO");
    CHECK(characters.errors == 1);
    CHECK(characters.units == 7);
    const TextErrors words = word_errors("ONE TWO THREE", " ONE  TOO");
    CHECK(words.errors == 2);
    CHECK(words.units == 3);
    TextErrors sum = words;
    sum += {3, 1};
    CHECK(sum.errors == 5);
    CHECK(sum.units == 4);
  }
}

}  // namespace
}  // namespace dragonn::data

// SPDX-License-Identifier: MIT
#include "core/rng.h"

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include <doctest/doctest.h>

namespace dragonn {
namespace {

using Block = std::array<std::uint32_t, 4>;

Block philox4x32(const PhiloxBlock& counter, const std::array<std::uint32_t, 2>& key) {
  return std::to_array(philox_block(counter, key[0], key[1]).words);
}

std::vector<std::uint32_t> draw(Rng rng, std::size_t count) {
  std::vector<std::uint32_t> numbers(count);
  for (auto& number : numbers) number = rng();
  return numbers;
}

TEST_SUITE("core") {
  TEST_CASE("philox4x32 gives the known answers of its authors' library") {
    // Random123, kat_vectors: "philox4x32 10".
    CHECK(philox4x32({{0, 0, 0, 0}}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox4x32({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, {0xffffffff, 0xffffffff}) ==
          Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {0xa4093822, 0x299f31d0}) ==
          Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  }

  TEST_CASE("a stream is the blocks of consecutive counters") {
    const auto numbers = draw(Rng(0x299f31d0a4093822ull), 8);
    const Block first = philox4x32({{0, 0, 0, 0}}, {0xa4093822, 0x299f31d0});
    const Block second = philox4x32({{1, 0, 0, 0}}, {0xa4093822, 0x299f31d0});
    CHECK(std::vector(first.begin(), first.end()) == std::vector(numbers.begin(), numbers.begin() + 4));
    CHECK(std::vector(second.begin(), second.end()) == std::vector(numbers.begin() + 4, numbers.end()));
    CHECK(draw(Rng(0x299f31d0a4093822ull, 1), 4) == std::vector(numbers.begin() + 4, numbers.end()));
  }

  TEST_CASE("streams of different seed, purpose or numbers differ, equal ones agree") {
    std::set<std::uint64_t> keys;
    std::size_t made = 0;
    for (std::uint64_t seed : {0, 1, 2}) {
      for (const char* purpose : {"sampler", "dropout", "", "a"}) {
        for (std::uint64_t step = 0; step < 20; ++step) {
          for (std::uint64_t rank = 0; rank < 20; ++rank, ++made) keys.insert(stream_key(seed, purpose, {step, rank}));
        }
      }
    }
    CHECK(keys.size() == made);
    CHECK(stream_key(1, "x", {2, 3}) == stream_key(1, "x", {2, 3}));
    CHECK(stream_key(1, "x", {2, 3}) != stream_key(1, "x", {3, 2}));
    CHECK(draw(Rng(7, "x", {1}), 16) != draw(Rng(7, "x", {2}), 16));
  }

  TEST_CASE("neighbouring streams are uncorrelated") {
    // The correlation of N independent pairs has standard deviation 1/sqrt(N): 5 of those are allowed.
    constexpr int kPairs = 40000;
    Rng a(1, "x", {0}), b(1, "x", {1});
    double sum = 0;
    for (int i = 0; i < kPairs; ++i) sum += (a.uniform_double() - 0.5) * (b.uniform_double() - 0.5);
    const double correlation = sum / kPairs * 12;
    CHECK(std::abs(correlation) < 5 / std::sqrt(double{kPairs}));
  }

  TEST_CASE("uniform numbers are at least 0 and less than 1, and have the moments of the distribution") {
    constexpr int kDraws = 40000;
    Rng rng(3, "uniform");
    double mean = 0, square = 0;
    for (int i = 0; i < kDraws; ++i) {
      const float u = rng.uniform();
      REQUIRE(u >= 0.0f);
      REQUIRE(u < 1.0f);
      mean += u / kDraws;
      square += u * u / kDraws;
    }
    // 5 standard errors: sqrt(1/12/N) for the mean, sqrt(4/45/N) for the mean square.
    CHECK(std::abs(mean - 1.0 / 2) < 5 * std::sqrt(1.0 / 12 / kDraws));
    CHECK(std::abs(square - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / kDraws));
  }

  TEST_CASE("below reaches every number under the bound and no other") {
    for (std::uint64_t bound : {1, 2, 3, 7, 10}) {
      Rng rng(bound, "below");
      std::vector<int> counts(bound, 0);
      constexpr int kDraws = 2000;
      for (int i = 0; i < kDraws; ++i) {
        const std::uint64_t number = rng.below(bound);
        REQUIRE(number < bound);
        ++counts[number];
      }
      const double share = 1.0 / static_cast<double>(bound);
      for (int count : counts)
        CHECK(std::abs(count - kDraws * share) < 5 * std::sqrt(kDraws * share * (1 - share)) + 1);
    }
    // A bound above 2^63 rejects almost half of the draws: the result must still be below it.
    Rng rng(5, "below");
    const std::uint64_t bound = (1ull << 63) + 1;
    for (int i = 0; i < 100; ++i) CHECK(rng.below(bound) < bound);
  }

  TEST_CASE("normal numbers have mean 0 and variance 1") {
    constexpr int kDraws = 40000;
    Rng rng(4, "normal");
    double mean = 0, square = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = rng.normal();
      REQUIRE(std::isfinite(x));
      mean += x / kDraws;
      square += x * x / kDraws;
    }
    // 5 standard errors: sqrt(1/N) and sqrt(2/N).
    CHECK(std::abs(mean) < 5 * std::sqrt(1.0 / kDraws));
    CHECK(std::abs(square - 1) < 5 * std::sqrt(2.0 / kDraws));
  }
}

}  // namespace
}  // namespace dragonn

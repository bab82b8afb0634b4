// SPDX-License-Identifier: MIT
#include <cmath>

#include <doctest/doctest.h>

#include "tests/codec/support.h"

namespace dragonn::codec::test {
namespace {

/// The bits of a code behind `skipped` bytes, the most significant bit of each byte first.
std::string bits_of(const Bytes& code, std::size_t skipped) {
  std::string bits;
  for (std::size_t i = skipped; i < code.size(); ++i) {
    for (int bit = 7; bit >= 0; --bit) bits += (std::to_integer<int>(code[i]) >> bit & 1) != 0 ? '1' : '0';
  }
  return bits;
}

/// The bits of the shortest code of gaps, tried with every b as the rule says.
std::uint64_t shortest_rice_bits(const Indices& indices) {
  std::uint64_t shortest = ~std::uint64_t{0};
  for (unsigned b = 0; b <= 30; ++b) {
    std::uint64_t bits = 0;
    std::uint32_t next = 0;
    for (const std::uint32_t index : indices) {
      const std::uint32_t quotient = (index - next) >> b;
      bits += quotient < 32 ? quotient + 1 + b : 64;
      next = index + 1;
    }
    shortest = std::min(shortest, bits);
  }
  return shortest;
}

/// The least bits that tell which k of n elements were chosen, log2 of their number.
double bound_bits(double n, double k) {
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2.0);
}

TEST_SUITE("codec") {
  TEST_CASE("every index codec gives back what it got, from exactly its bytes") {
    for (const std::string& name : Registry<IndexCodecEntry>::instance().names()) {
      const auto codec = index_codec(name);
      for (const Indices& indices : lists_of_every_kind()) {
        INFO(name, ", ", indices.size(), " indices up to ", indices.back());
        Bytes code = encode(*codec, indices);
        REQUIRE(code.size() <= codec->max_bytes(indices.size()));
        if (const auto known = codec->known_bytes(indices)) CHECK(code.size() == *known);
        CHECK(encode(*codec, indices) == code);
        const std::size_t bytes = code.size();
        for (const std::size_t more : {0u, 3u, 300u}) {  // a code tells its own end
          code.resize(bytes + more, std::byte{0xFF});
          const auto [decoded, read] = decode(*codec, code);
          CHECK(decoded == indices);
          CHECK(read == bytes);
        }
      }
    }
  }

  TEST_CASE("every index codec refuses every beginning of a code") {
    for (const std::string& name : Registry<IndexCodecEntry>::instance().names()) {
      const auto codec = index_codec(name);
      for (const Indices& indices : {Indices{3, 4, 20, 21, 100}, random_indices(9000, 0.3, 7)}) {
        const Bytes code = encode(*codec, indices);
        for (std::size_t bytes = 0; bytes < code.size(); bytes += 1 + bytes / 16) {
          INFO(name, ", ", bytes, " of ", code.size(), " bytes");
          CHECK_THROWS_AS(decode(*codec, Bytes(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(bytes))),
                          DataError);
        }
      }
    }
  }

  TEST_CASE("rice writes the gaps 3, 0, 15, 0 and 78 in these bits") {
    // The group begins behind the number of indices, b and its entry of the table. With b = 3 it has 30 bits, with
    // b = 4 only 29, so that is chosen.
    constexpr std::size_t kBegin = 4 + 1 + 6;
    const Indices indices{3, 4, 20, 21, 100};
    Bytes code = encode(*index_codec("rice"), indices);
    REQUIRE(code.size() == kBegin + 4);
    CHECK(std::to_integer<int>(code[4]) == 4);
    CHECK(bits_of(code, kBegin) ==
          "00011"
          "00000"
          "01111"
          "00000"
          "111101110"
          "000");
    const std::string with_three =
        "0011"
        "0000"
        "10111"
        "0000"
        "1111111110110"
        "00";
    code[4] = std::byte{3};
    for (std::size_t i = 0; i < 4; ++i)
      code[kBegin + i] = static_cast<std::byte>(std::stoi(with_three.substr(8 * i, 8), nullptr, 2));
    CHECK(decode(*index_codec("rice"), code).first == indices);
  }

  TEST_CASE("rice chooses the b with the shortest code") {
    for (const Indices& indices : lists_of_every_kind()) {
      INFO(indices.size(), " indices up to ", indices.back());
      const std::size_t groups = (indices.size() + 1023) / 1024;
      const std::size_t bytes = encode(*index_codec("rice"), indices).size() - 5 - 6 * groups;
      const std::uint64_t bits = shortest_rice_bits(indices);
      CHECK(bytes >= bits / 8);
      CHECK(bytes <= bits / 8 + groups);  // each group fills its last byte
    }
  }

  TEST_CASE("rice comes within 3 % of the bound where indices are random") {
    for (const double density : {0.1, 0.01, 0.001}) {
      const std::uint32_t numel = 4000000;
      const Indices indices = random_indices(numel, density, 11);
      const auto k = static_cast<double>(indices.size());
      const double bits = 8.0 * static_cast<double>(encode(*index_codec("rice"), indices).size()) / k;
      INFO("density ", density, ": ", bits, " bits, bound ", bound_bits(numel, k) / k);
      CHECK(bits < 1.03 * bound_bits(numel, k) / k);
      CHECK(bits == doctest::Approx(index_codec("rice")->expected_bits(k, numel)).epsilon(0.01));
    }
  }

  TEST_CASE("blocked takes 12 bits an index and 16 a block, bitmap a bit an element") {
    const Indices indices = random_indices(40960, 0.2, 13);
    const auto k = static_cast<double>(indices.size());
    CHECK(encode(*index_codec("blocked"), indices).size() == 12 + 10 * 2 + (indices.size() * 12 + 7) / 8);
    CHECK(encode(*index_codec("bitmap"), indices).size() == 12 + 40960 / 8);
    CHECK(encode(*index_codec("raw32"), indices).size() == 4 + indices.size() * 4);
    for (const char* name : {"blocked", "bitmap"}) {
      const double bits = 8.0 * static_cast<double>(encode(*index_codec(name), indices).size()) / k;
      CHECK(bits == doctest::Approx(index_codec(name)->expected_bits(k, 40960)).epsilon(0.001));
    }
  }

  TEST_CASE("no index codec takes much more than the indices themselves") {
    for (const char* name : {"rice", "blocked", "bitmap", "smallest"}) {
      for (const Indices& indices : lists_of_every_kind()) {
        INFO(name, ", ", indices.size(), " indices up to ", indices.back());
        CHECK(encode(*index_codec(name), indices).size() <= 12 + 4 * indices.size() + indices.size() / 3);
      }
    }
  }

  TEST_CASE("smallest takes the shortest code, and a byte") {
    for (const Indices& indices : lists_of_every_kind()) {
      std::size_t shortest = ~std::size_t{0};
      for (const char* name : {"rice", "blocked", "bitmap", "raw32"})
        shortest = std::min(shortest, encode(*index_codec(name), indices).size());
      CHECK(encode(*index_codec("smallest"), indices).size() == 1 + shortest);
    }
  }
}

}  // namespace
}  // namespace dragonn::codec::test

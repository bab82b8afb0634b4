// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "tests/codec/support.h"

namespace dragonn::codec::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kMutations = 150;  // of each list and codec
#else
constexpr int kMutations = 1000;
#endif

/// The changes that a damaged or hostile sender makes: other bits, other bytes, numbers at the ends of their range, a
/// part that is missing, repeated or random.
Bytes mutated(Bytes code, Rng& rng) {
  const auto place = [&] { return static_cast<std::size_t>(rng.below(code.size())); };
  for (std::uint64_t changes = 1 + rng.below(3); changes > 0 && !code.empty(); --changes) {
    switch (rng.below(7)) {
      case 0:
        code[place()] ^= static_cast<std::byte>(1u << rng.below(8));
        break;
      case 1:
        code[place()] = static_cast<std::byte>(rng());
        break;
      case 2:
        code.resize(place());
        break;
      case 3:
        for (std::uint64_t more = 1 + rng.below(20); more > 0; --more) code.push_back(static_cast<std::byte>(rng()));
        break;
      case 4: {  // a length or a count
        const std::size_t begin = rng.below(2) == 0 ? 0 : place();
        const std::byte filler{static_cast<unsigned char>(rng.below(2) == 0 ? 0xFF : 0)};
        for (std::size_t i = begin; i < std::min(begin + 4, code.size()); ++i) code[i] = filler;
        break;
      }
      case 5: {
        const std::size_t begin = place();
        for (std::size_t i = begin; i < std::min(begin + 64, code.size()); ++i) code[i] = std::byte{0xFF};
        break;
      }
      default:
        code.erase(code.begin() + static_cast<std::ptrdiff_t>(place()));
    }
  }
  return code;
}

/// Decodes a copy whose end is the end of its memory, where a sanitizer sees any read behind it. Returns whether it was
/// taken as a code; then the list must keep the codec's promises.
bool survives(const ListCodec& codec, const Bytes& code, bool has_values) {
  const std::size_t words = (code.size() + 3) / 4;
  const std::unique_ptr<std::byte[]> copy(new (std::align_val_t(4)) std::byte[code.size()]);
  std::ranges::copy(code, copy.get());
  SparseVector scratch;
  try {
    const ListView list = codec.decode({copy.get(), code.size()}, has_values, scratch);
    const auto indices = list.indices.host();
    CHECK(std::ranges::adjacent_find(indices, std::greater_equal<>()) == indices.end());
    CHECK((indices.empty() || indices.back() < kEmptySlot));
    CHECK(list.values.size() == (has_values ? indices.size() : 0));
    CHECK(scratch.indices.capacity() <= 2 * 8 * 4 * words + 64);
    return true;
  } catch (const DataError& error) {
    CHECK(std::string(error.what()).size() > 10);
    return false;
  }
}

TEST_SUITE("codec") {
  TEST_CASE("no damaged code of indices does more than be refused") {
    const std::vector<Indices> lists{{3, 4, 20, 21, 100},
                                     {0, 1u << 31, kEmptySlot - 1},
                                     random_indices(3000, 0.5, 1),
                                     random_indices(30000, 0.05, 2),
                                     clustered_indices(60000, 3)};
    std::size_t refused = 0, taken = 0;
    for (const std::string& name : Registry<IndexCodecEntry>::instance().names()) {
      const auto codec = list_codec(name);
      Rng rng(9, "mutations", {std::hash<std::string>()(name)});
      for (const Indices& indices : lists) {
        const std::vector<float> values(indices.size(), 1.5f);
        for (const bool has_values : {false, true}) {
          const ListView list{std::span(indices),
                              has_values ? View<const float>(std::span(values)) : View<const float>()};
          Bytes code(codec->max_bytes(indices.size(), has_values));
          code.resize(codec->encode(list, has_values, code));
          REQUIRE(survives(*codec, code, has_values));
          for (int i = 0; i < kMutations; ++i) ++(survives(*codec, mutated(code, rng), has_values) ? taken : refused);
        }
      }
    }
    CHECK(refused > taken);
    CHECK(taken > 0);
  }

  TEST_CASE("a list in its message is refused unless it ascends, with empty slots behind it alone") {
    const auto codec = list_codec(kRawIndices);
    const auto entries = [&](const Indices& indices) {
      SparseVector scratch;
      const auto code = std::as_bytes(std::span(indices));
      const ListView list = codec->decode(code, /*has_values=*/false, scratch);
      CHECK(std::ranges::equal(list.indices.host(), std::span(indices).first(list.size())));
      return list.size();
    };
    CHECK(entries({}) == 0);
    CHECK(entries({kEmptySlot}) == 0);
    CHECK(entries({0, 5, kEmptySlot - 1, kEmptySlot, kEmptySlot}) == 3);
    for (const Indices& damaged :
         {Indices{5, 5}, Indices{6, 5}, Indices{kEmptySlot, 5}, Indices{1, kEmptySlot, 2}, Indices{1, kEmptySlot, 0}})
      CHECK_THROWS_AS(entries(damaged), DataError);
  }

  TEST_CASE("random bytes are refused, or a list") {
    Rng rng(10, "random bytes");
    for (const std::string& name : Registry<IndexCodecEntry>::instance().names()) {
      const auto codec = list_codec(name);
      for (int i = 0; i < 10 * kMutations; ++i) {
        Bytes code(1 + rng.below(60));
        for (std::byte& byte : code) byte = static_cast<std::byte>(rng() & (i % 3 == 0 ? 0x0303u : 0xFFu));
        survives(*codec, code, i % 2 == 0);
      }
    }
  }

  TEST_CASE("a code of 2^32 - 1 indices in a few bytes takes no memory") {
    for (const char* name : {"rice", "blocked", "bitmap", "smallest"}) {
      const auto codec = list_codec(name);
      Bytes code(64, std::byte{0});
      for (std::size_t i = name == std::string("smallest") ? 1 : 0; i < 5; ++i) code[i] = std::byte{0xFF};
      SparseVector scratch;
      CHECK_THROWS_AS(codec->decode(code, true, scratch), DataError);
      CHECK(scratch.indices.capacity() == 0);
    }
  }
}

}  // namespace
}  // namespace dragonn::codec::test

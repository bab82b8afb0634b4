// SPDX-License-Identifier: MIT
// Index codec "bitmap": one bit per element, from the first index's word to the last one's.
//
// uint32 number of indices | uint32 first word of 64 elements | uint32 number of words, 0: the indices follow as uint32
// | uint64 words, the least significant bit first.
#include <algorithm>
#include <bit>

#include "codec/indices/index_codec.h"
#include "codec/indices/plain_indices.h"
#include "core/sparse_vector.h"

namespace dragonn::codec {
namespace {

using Word = std::uint64_t;
constexpr std::uint32_t kBits = 64;
constexpr std::uint64_t kMaxWords = (std::uint64_t{kEmptySlot} + 1) / kBits;

/// Writes the words from the first index's on. Returns the first byte behind them.
std::byte* write_words(std::span<const std::uint32_t> indices, std::byte* to) {
  std::uint32_t current = indices.front() / kBits;
  Word word = 0;
  for (const std::uint32_t index : indices) {
    for (; current < index / kBits; ++current, to += sizeof(Word)) {
      store(word, to);
      word = 0;
    }
    word |= Word{1} << (index % kBits);
  }
  store(word, to);
  return to + sizeof(Word);
}

/// Returns the bytes behind the head.
std::size_t words_bytes(const CellRange& range) {
  return range.cells * sizeof(Word);
}

class Bitmap final : public IndexCodec {
 public:
  std::size_t max_bytes(std::size_t indices) const override {
    return CellRange::kBytes + indices * sizeof(std::uint32_t) + sizeof(Word);
  }

  std::size_t encode(std::span<const std::uint32_t> indices, std::span<std::byte> code) const override {
    const CellRange range = CellRange::of(indices, kBits);
    const bool plain = words_bytes(range) >= indices.size_bytes();
    std::byte* const to = range.write(plain, code.data());
    const std::byte* const end = plain ? write_plain(indices, to) : write_words(indices, to);
    return static_cast<std::size_t>(end - code.data());
  }

  std::optional<std::size_t> known_bytes(std::span<const std::uint32_t> indices) const override {
    return CellRange::kBytes + std::min(words_bytes(CellRange::of(indices, kBits)), indices.size_bytes());
  }

  std::span<const std::byte> decode(std::span<const std::byte> code, Buffer<std::uint32_t>& indices) const override {
    CodeReader reader("bitmap", code);
    const auto [count, first, words] = CellRange::read(reader, kMaxWords);
    if (words == 0) {
      read_plain(reader, count, indices);
      return reader.rest();
    }
    const std::byte* const from = reader.take(std::uint64_t{words} * sizeof(Word), "words").data();
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < words; ++i)
      bits += static_cast<unsigned>(std::popcount(load<Word>(from + i * sizeof(Word))));
    reader.require(bits == count, "{} bits are set for {} indices", bits, count);
    resize_with_slack(indices, count);
    std::uint32_t* to = indices.data();
    for (std::uint32_t i = 0; i < words; ++i) {
      for (Word word = load<Word>(from + i * sizeof(Word)); word != 0; word &= word - 1)
        *to++ = (first + i) * kBits + static_cast<std::uint32_t>(std::countr_zero(word));
    }
    return reader.rest();
  }

  double expected_bits(double indices, double numel) const override {
    if (indices <= 0) return 0;
    return std::min(numel / indices, 32.0) + 8.0 * CellRange::kBytes / indices;
  }
};

const Registration<IndexCodecEntry> registration{
    {{.name = "bitmap", .summary = "one bit per element; the shortest above a density of about 0.37"},
     /*is_exact=*/true,
     /*make=*/[](const Settings&) { return std::make_unique<Bitmap>(); }}};

}  // namespace
}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
// Index codec "blocked": 12 bits an index, relative to its block of 4,096 elements.
//
// uint32 number of indices | uint32 first block | uint32 number of blocks, 0: the indices follow as uint32 | for every
// block: uint16 number of its indices | all relative indices, 12 bits each, the least significant bit first.
#include <algorithm>

#include "codec/indices/index_codec.h"
#include "codec/indices/plain_indices.h"
#include "core/sparse_vector.h"

namespace dragonn::codec {
namespace {

constexpr unsigned kIndexBits = 12;
constexpr std::uint32_t kBlock = 1u << kIndexBits;
constexpr std::uint64_t kMaxBlocks = (std::uint64_t{kEmptySlot} + 1) >> kIndexBits;

constexpr std::size_t kCount = sizeof(std::uint16_t);

constexpr std::uint64_t packed_bytes(std::uint64_t indices) {
  return (indices * kIndexBits + 7) / 8;
}

/// Writes the number of indices in each block, from the first index's block to the last one's.
std::byte* write_counts(std::span<const std::uint32_t> indices, std::byte* to) {
  std::size_t position = 0;
  for (std::uint32_t block = indices.front() / kBlock; position < indices.size(); ++block) {
    const std::size_t begin = position;
    while (position < indices.size() && indices[position] / kBlock == block) ++position;
    store(static_cast<std::uint16_t>(position - begin), to);
    to += kCount;
  }
  return to;
}

/// Packs relative indices, four into six bytes. Writes up to two bytes behind them.
std::byte* pack(std::span<const std::uint32_t> indices, std::byte* to) {
  const auto relative = [&](std::size_t i) { return std::uint64_t{indices[i] % kBlock}; };
  std::byte* const end = to + packed_bytes(indices.size());
  std::size_t i = 0;
  for (; i + 4 <= indices.size(); i += 4, to += 6) {
    store(relative(i) | relative(i + 1) << kIndexBits | relative(i + 2) << (2 * kIndexBits) |
              relative(i + 3) << (3 * kIndexBits),
          to);
  }
  std::uint64_t rest = 0;
  for (unsigned shift = 0; i < indices.size(); ++i, shift += kIndexBits) rest |= relative(i) << shift;
  if (to < end) store(rest, to);
  return end;
}

/// Unpacks the indices [begin, begin + indices.size()) of a packed list, whose block begins with element `first`.
void unpack(const std::byte* packed, std::size_t begin, std::uint32_t first, std::span<std::uint32_t> indices) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t bit = (begin + i) * kIndexBits;
    const unsigned pair = load<std::uint16_t>(packed + bit / 8);
    indices[i] = first + (pair >> (bit % 8)) % kBlock;
  }
}

/// Returns the bytes behind the head.
std::size_t packed_range_bytes(const CellRange& range) {
  return range.cells * kCount + packed_bytes(range.count);
}

class Blocked final : public IndexCodec {
 public:
  std::size_t max_bytes(std::size_t indices) const override {
    return CellRange::kBytes + indices * sizeof(std::uint32_t) + sizeof(std::uint64_t);
  }

  std::size_t encode(std::span<const std::uint32_t> indices, std::span<std::byte> code) const override {
    const CellRange range = CellRange::of(indices, kBlock);
    const bool plain = packed_range_bytes(range) >= indices.size_bytes();
    std::byte* const to = range.write(plain, code.data());
    const std::byte* const end = plain ? write_plain(indices, to) : pack(indices, write_counts(indices, to));
    return static_cast<std::size_t>(end - code.data());
  }

  std::optional<std::size_t> known_bytes(std::span<const std::uint32_t> indices) const override {
    return CellRange::kBytes + std::min(packed_range_bytes(CellRange::of(indices, kBlock)), indices.size_bytes());
  }

  std::span<const std::byte> decode(std::span<const std::byte> code, Buffer<std::uint32_t>& indices) const override {
    CodeReader reader("blocked", code);
    const auto [count, first, blocks] = CellRange::read(reader, kMaxBlocks);
    if (blocks == 0) {
      read_plain(reader, count, indices);
      return reader.rest();
    }
    const std::byte* counts = reader.take(std::uint64_t{blocks} * kCount, "the numbers of indices by block").data();
    const std::byte* packed = reader.take(packed_bytes(count), "packed indices").data();
    resize_with_slack(indices, count);
    std::size_t begin = 0;
    for (std::uint32_t block = first; block < first + blocks; ++block, counts += kCount) {
      const auto of_block = load<std::uint16_t>(counts);
      reader.require(of_block <= count - begin, "block {} has {} indices, and {} are left of {}", block, of_block,
                     count - begin, count);
      unpack(packed, begin, block * kBlock, indices.host().subspan(begin, of_block));
      begin += of_block;
    }
    reader.require(begin == count, "the blocks have {} indices of {}", begin, count);
    return reader.rest();
  }

  double expected_bits(double indices, double numel) const override {
    if (indices <= 0) return 0;
    const double blocks = std::max(1.0, numel / kBlock);
    return std::min(kIndexBits + 8.0 * kCount * blocks / indices, 32.0) + 8.0 * CellRange::kBytes / indices;
  }
};

const Registration<IndexCodecEntry> registration{
    {{.name = "blocked",
      .summary = "12 bits per index within blocks of 4,096 elements, and a count per block",
      .source = "CCLoco's code (SparseLoCo, arXiv:2508.15706), 12-bit indices"},
     /*is_exact=*/true,
     /*make=*/[](const Settings&) { return std::make_unique<Blocked>(); }}};

}  // namespace
}  // namespace dragonn::codec

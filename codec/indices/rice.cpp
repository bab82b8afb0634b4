// SPDX-License-Identifier: MIT
// Index codec "rice": gaps between indices as a unary quotient and b low bits (Rice 1971).
//
// uint32 number of indices | uint8 b | for every group of 1,024 indices: uint16 bytes, uint32 index before the group
// | the groups, each from a byte on. A gap g = index - previous - 1 is g >> b ones, a zero and the low b bits of g,
// most significant first; if there were 32 ones or more, 32 ones and the 32 bits of g.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "codec/code_bytes.h"
#include "codec/indices/index_codec.h"
#include "core/sparse_vector.h"

namespace dragonn::codec {
namespace {

constexpr std::size_t kGroup = 1024;
constexpr unsigned kEscape = 32;         // ones in front of a gap that is written as it is
constexpr unsigned kEscapedBits = 64;    // of such a gap
constexpr unsigned kMaxLowBits = 30;     // the largest b
constexpr unsigned kNarrowLowBits = 24;  // up to here the longest code of a gap is one put and one window
constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();  // before the first

constexpr std::size_t kHeader = sizeof(std::uint32_t) + sizeof(std::uint8_t);
constexpr std::size_t kTableEntry = sizeof(std::uint16_t) + sizeof(std::uint32_t);

constexpr std::size_t groups_of(std::size_t indices) {
  return (indices + kGroup - 1) / kGroup;
}

/// Counts gaps by their leading five bits, which tell the exact length of their codes for every b: further bits are low
/// bits, or the gap is escaped.
class GapHistogram {
 public:
  explicit GapHistogram(std::span<const std::uint32_t> indices) {
    std::uint32_t previous = kNoIndex;
    for (const std::uint32_t index : indices) {
      ++counts_[bin_of(index - previous - 1)];
      previous = index;
    }
    for (std::size_t bin = 0; bin < counts_.size(); ++bin) add_up(bin);
  }

  /// Returns the b with the shortest code, the smallest of several.
  unsigned best_low_bits() const {
    unsigned best = 0;
    std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
    for (unsigned low_bits = 0; low_bits <= kMaxLowBits; ++low_bits) {
      const std::uint64_t bits = bits_with(low_bits);
      if (bits < fewest) best = low_bits;
      fewest = std::min(fewest, bits);
    }
    return best;
  }

 private:
  static constexpr unsigned kShifts = 28;  // of a gap of up to 32 bits, so that five are left
  static constexpr unsigned kLeading = 5;

  /// Returns the place of a gap: below 32 the gap, and 16 places for every further width.
  static std::size_t bin_of(std::uint32_t gap) {
    const auto shift = static_cast<unsigned>(std::bit_width(gap | 16u)) - kLeading;
    return 16 * shift + (gap >> shift);
  }
  void add_up(std::size_t bin) {
    if (counts_[bin] == 0) return;
    const std::size_t shift = bin < 32 ? 0 : bin / 16 - 1;
    const std::uint64_t leading = bin - 16 * shift;
    gaps_[shift] += counts_[bin];
    for (unsigned more = 0; more < kLeading; ++more) quotients_[shift][more] += counts_[bin] * (leading >> more);
  }
  /// Returns the bits of all gaps with b low bits.
  std::uint64_t bits_with(unsigned low_bits) const {
    std::uint64_t bits = 0;
    for (unsigned shift = 0; shift < kShifts; ++shift) {
      if (shift > low_bits) {
        bits += kEscapedBits * gaps_[shift];  // the quotient has six bits or more
      } else {
        const unsigned more = low_bits - shift;
        bits += (low_bits + 1) * gaps_[shift] + (more < kLeading ? quotients_[shift][more] : 0);
      }
    }
    return bits;
  }

  std::array<std::uint32_t, 16 * (kShifts + 1)> counts_{};
  // By shift: the number of gaps, and the sums of their quotients with `shift` low bits and a few more.
  std::array<std::uint64_t, kShifts> gaps_{};
  std::array<std::array<std::uint64_t, kLeading>, kShifts> quotients_{};
};

/// Writes a group. Returns the first byte behind it.
template <bool kNarrow>
std::byte* encode_group(std::span<const std::uint32_t> indices, std::uint32_t previous, unsigned low_bits,
                        std::byte* to) {
  BitWriter writer(to);
  const std::uint64_t mask = (std::uint64_t{1} << low_bits) - 1;
  for (const std::uint32_t index : indices) {
    const std::uint32_t gap = index - previous - 1;
    previous = index;
    const std::uint32_t quotient = gap >> low_bits;
    if (quotient >= kEscape) [[unlikely]] {
      writer.put(std::numeric_limits<std::uint32_t>::max(), kEscape);
      writer.put(gap, 32);
      continue;
    }
    const std::uint64_t ones = (std::uint64_t{1} << quotient) - 1;
    if constexpr (kNarrow) {
      writer.put(ones << (low_bits + 1) | (gap & mask), quotient + 1 + low_bits);
    } else {
      writer.put(ones << 1, quotient + 1);
      writer.put(gap & mask, low_bits);
    }
  }
  return writer.end();
}

/// Reads the indices of a group, up to kOverread bytes behind its end if it is no code.
constexpr std::size_t kStride = 16;
constexpr std::size_t kOverread = kStride * kEscapedBits / 8 + sizeof(std::uint64_t);
template <bool kNarrow>
class GroupDecoder {
 public:
  /// @param previous the index before the group.
  GroupDecoder(std::span<const std::byte> bytes, unsigned low_bits, std::uint64_t previous, std::uint32_t* to)
      : stream_(bytes.data()), limit_(8 * bytes.size()), low_bits_(low_bits), last_(previous), to_(to) {}

  /// Reads the next index, kStride times at most before is_within() is asked.
  void read_one() {
    std::uint64_t window = bits_at(stream_, position_);
    const auto quotient = static_cast<unsigned>(std::countl_one(window));
    if (quotient >= kEscape) [[unlikely]] {
      last_ += (bits_at(stream_, position_ + kEscape) >> 32) + 1;
      position_ += kEscapedBits;
    } else {
      position_ += quotient + 1;
      window = kNarrow ? window << (quotient + 1) : bits_at(stream_, position_);
      last_ += (std::uint64_t{quotient} << low_bits_) + (window >> 1 >> (63 - low_bits_)) + 1;
      position_ += low_bits_;
    }
    *to_++ = static_cast<std::uint32_t>(last_);
  }
  bool is_within() const { return position_ <= limit_; }
  /// Returns the last index, which is too large if the group is no code.
  std::uint64_t last() const { return last_; }
  /// Returns whether the group ends with what was read.
  bool is_at_end() const { return (position_ + 7) / 8 == limit_ / 8; }

 private:
  const std::byte* stream_;
  std::size_t limit_;  // in bits
  unsigned low_bits_;
  std::uint64_t last_;
  std::uint32_t* to_;
  std::size_t position_ = 0;  // in bits
};

class Rice final : public IndexCodec {
 public:
  std::size_t max_bytes(std::size_t indices) const override {
    // With b = 30 a gap takes at most three ones, a zero and 30 bits.
    constexpr std::size_t kMaxBits = kMaxLowBits + 4;
    const std::size_t groups = groups_of(indices);
    return kHeader + groups * (kTableEntry + 1) + (indices * kMaxBits + 7) / 8 + sizeof(std::uint64_t);
  }

  std::size_t encode(std::span<const std::uint32_t> indices, std::span<std::byte> code) const override {
    const unsigned low_bits = GapHistogram(indices).best_low_bits();
    const auto encode_any = low_bits <= kNarrowLowBits ? encode_group<true> : encode_group<false>;
    store(static_cast<std::uint32_t>(indices.size()), code.data());
    store(static_cast<std::uint8_t>(low_bits), code.data() + sizeof(std::uint32_t));
    std::byte* table = code.data() + kHeader;
    std::byte* to = table + groups_of(indices.size()) * kTableEntry;
    std::uint32_t previous = kNoIndex;
    for (std::size_t begin = 0; begin < indices.size(); begin += kGroup, table += kTableEntry) {
      const std::span<const std::uint32_t> group = indices.subspan(begin, std::min(kGroup, indices.size() - begin));
      std::byte* const end = encode_any(group, previous, low_bits, to);
      store(static_cast<std::uint16_t>(end - to), table);
      store(previous, table + sizeof(std::uint16_t));
      previous = group.back();
      to = end;
    }
    return static_cast<std::size_t>(to - code.data());
  }

  std::span<const std::byte> decode(std::span<const std::byte> code, Buffer<std::uint32_t>& indices) const override {
    CodeReader reader("rice", code);
    const auto count = reader.number<std::uint32_t>("the number of indices");
    const unsigned low_bits = reader.number<std::uint8_t>("b");
    reader.require(count > 0, "a code of no indices is not empty");
    reader.require(low_bits <= kMaxLowBits, "b is {}, above {}", low_bits, kMaxLowBits);
    const std::size_t groups = groups_of(count);
    const std::byte* entry = reader.take(std::uint64_t{groups} * kTableEntry, "the table of groups").data();
    // A gap takes a bit at least: this bounds the memory by the length of the code.
    reader.require(count <= 8 * reader.rest().size(), "{} indices in {} bytes", count, reader.rest().size());
    resize_with_slack(indices, count);
    const auto read_any = low_bits <= kNarrowLowBits ? read_groups<true> : read_groups<false>;
    read_any(reader, {entry, groups, low_bits}, indices.host());
    return reader.rest();
  }

  double expected_bits(double indices, double numel) const override {
    if (indices <= 0 || numel <= 0) return 0;
    const double density = std::min(indices / numel, 1 - 1e-9);
    double fewest = std::numeric_limits<double>::infinity();
    for (unsigned low_bits = 0; low_bits <= kMaxLowBits; ++low_bits) {
      // The mean of gap >> b, whose gaps are geometrically distributed.
      const double more = std::pow(1 - density, std::ldexp(1.0, static_cast<int>(low_bits)));
      fewest = std::min(fewest, low_bits + 1 + more / (1 - more));
    }
    const double groups = std::ceil(indices / kGroup);
    return fewest + 8 * (kHeader + groups * (kTableEntry + 0.5)) / indices;
  }

 private:
  struct Table {
    const std::byte* entries;
    std::size_t groups;
    unsigned low_bits;

    std::uint16_t bytes(std::size_t group) const { return load<std::uint16_t>(entries + group * kTableEntry); }
    /// Returns the index before the group. The first follows -1.
    std::uint64_t previous(std::size_t group) const {
      if (group == 0) return std::numeric_limits<std::uint64_t>::max();
      return load<std::uint32_t>(entries + group * kTableEntry + sizeof(std::uint16_t));
    }
  };

  template <bool kNarrow>
  static void read_groups(CodeReader& reader, const Table& table, std::span<std::uint32_t> indices) {
    const auto stated = load<std::uint32_t>(table.entries + sizeof(std::uint16_t));
    reader.require(stated == kNoIndex, "group 0 follows index {}", stated);
    std::size_t group = 0;
    while (indices.size() >= 2 * kGroup &&
           reader.rest().size() >= std::size_t{table.bytes(group)} + table.bytes(group + 1) + kOverread) {
      read_pair<kNarrow>(reader, table, group, indices.data());
      indices = indices.subspan(2 * kGroup);
      group += 2;
    }
    for (; group < table.groups; ++group) {
      read_group<kNarrow>(reader, table, group, indices.first(std::min(kGroup, indices.size())));
      indices = indices.subspan(std::min(kGroup, indices.size()));
    }
  }

  /// Reads two whole groups in turns: within a group every gap waits for the one before it.
  template <bool kNarrow>
  static void read_pair(CodeReader& reader, const Table& table, std::size_t group, std::uint32_t* to) {
    const auto bytes = reader.take(table.bytes(group), "a group");
    const auto next_bytes = reader.take(table.bytes(group + 1), "a group");
    GroupDecoder<kNarrow> first(bytes, table.low_bits, table.previous(group), to);
    GroupDecoder<kNarrow> second(next_bytes, table.low_bits, table.previous(group + 1), to + kGroup);
    for (std::size_t begin = 0; begin < kGroup && first.is_within() && second.is_within(); begin += kStride) {
      for (std::size_t i = 0; i < kStride; ++i) {
        first.read_one();
        second.read_one();
      }
    }
    check_group(reader, table, group, first);
    check_group(reader, table, group + 1, second);
  }

  template <bool kNarrow>
  static void read_group(CodeReader& reader, const Table& table, std::size_t group, std::span<std::uint32_t> to) {
    constexpr std::size_t kMaxBytes = kGroup * kEscapedBits / 8;
    auto bytes = reader.take(table.bytes(group), "a group");
    std::array<std::byte, kMaxBytes + kOverread> copy;
    if (reader.rest().size() < kOverread) {
      reader.require(bytes.size() <= kMaxBytes, "group {} has {} bytes, above {}", group, bytes.size(), kMaxBytes);
      std::fill_n(std::ranges::copy(bytes, copy.begin()).out, kOverread, std::byte{0});
      bytes = std::span(std::as_const(copy)).first(bytes.size());
    }
    GroupDecoder<kNarrow> decoder(bytes, table.low_bits, table.previous(group), to.data());
    for (std::size_t begin = 0; begin < to.size() && decoder.is_within(); begin += kStride) {
      for (std::size_t i = begin; i < std::min(begin + kStride, to.size()); ++i) decoder.read_one();
    }
    check_group(reader, table, group, decoder);
  }

  template <bool kNarrow>
  static void check_group(const CodeReader& reader, const Table& table, std::size_t group,
                          const GroupDecoder<kNarrow>& decoder) {
    reader.require(decoder.is_at_end(), "group {} has {} bytes, not those of its gaps", group, table.bytes(group));
    reader.require(decoder.last() < kEmptySlot, "group {} ends with index {}", group, decoder.last());
    if (group + 1 == table.groups) return;
    reader.require(table.previous(group + 1) == decoder.last(), "group {} follows index {}, not {}", group + 1,
                   table.previous(group + 1), decoder.last());
  }
};

const Registration<IndexCodecEntry> registration{
    {{.name = "rice",
      .summary = "gaps between indices as a unary quotient and low bits; 8.1 bits at density 0.01",
      .source = "Rice and Plaunt, IEEE Trans. Commun. 19 (1971); DeepReduce (NeurIPS 2021)"},
     /*is_exact=*/false,
     /*make=*/[](const Settings&) { return std::make_unique<Rice>(); }}};

}  // namespace
}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
/// Packed groups: codecs that write neighbouring values as small numbers behind what the values share, a scale or a
/// table.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "codec/code_bytes.h"
#include "codec/values/value_codec.h"

namespace dragonn::codec {

/// Numbers that are packed at once: whole bytes for any number of bits.
inline constexpr std::size_t kPackedAtOnce = 512;

/// Packs numbers below 2^bits, the least significant bit first, into whole bytes: the rest of the last one is 0.
inline void pack_numbers(unsigned bits, std::span<const std::uint32_t> numbers, std::byte* to) {
  std::uint64_t pending = 0;
  unsigned used = 0;
  for (const std::uint32_t number : numbers) {
    pending |= std::uint64_t{number} << used;
    used += bits;
    for (; used >= 8; used -= 8, pending >>= 8) *to++ = static_cast<std::byte>(pending);
  }
  if (used > 0) *to = static_cast<std::byte>(pending);
}

/// Packs as pack_numbers, for bits that divide a byte, several bytes at a time.
template <unsigned kBits>
void pack_in_bytes(std::span<const std::uint32_t> numbers, std::byte* to) {
  constexpr std::size_t kPerByte = 8 / kBits;
  const std::size_t bytes = numbers.size() / kPerByte;
  for (std::size_t i = 0; i < bytes; ++i) {
    std::uint32_t byte = 0;
    for (std::size_t j = 0; j < kPerByte; ++j) byte |= numbers[i * kPerByte + j] << (j * kBits);
    to[i] = static_cast<std::byte>(byte);
  }
  pack_numbers(kBits, numbers.subspan(bytes * kPerByte), to + bytes);
}

/// Unpacks numbers of `bits` bits.
inline void unpack_numbers(unsigned bits, const std::byte* from, std::span<std::uint32_t> numbers) {
  std::uint64_t pending = 0;
  unsigned used = 0;
  for (std::uint32_t& number : numbers) {
    for (; used < bits; used += 8) pending |= std::to_integer<std::uint64_t>(*from++) << used;
    number = static_cast<std::uint32_t>(pending & ((std::uint64_t{1} << bits) - 1));
    pending >>= bits;
    used -= bits;
  }
}

/// Unpacks as unpack_numbers, for bits that divide a byte.
template <unsigned kBits>
void unpack_from_bytes(const std::byte* from, std::span<std::uint32_t> numbers) {
  constexpr std::size_t kPerByte = 8 / kBits;
  const std::size_t bytes = numbers.size() / kPerByte;
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto byte = std::to_integer<std::uint32_t>(from[i]);
    for (std::size_t j = 0; j < kPerByte; ++j) numbers[i * kPerByte + j] = byte >> (j * kBits) & ((1u << kBits) - 1);
  }
  unpack_numbers(kBits, from + bytes, numbers.subspan(bytes * kPerByte));
}

/// Calls `by_constant` with the bits as a constant if they divide a byte, else `general`.
template <class ByConstant, class General>
void with_bits(unsigned bits, const ByConstant& by_constant, const General& general) {
  switch (bits) {
    case 1:
      return by_constant(std::integral_constant<unsigned, 1>());
    case 2:
      return by_constant(std::integral_constant<unsigned, 2>());
    case 4:
      return by_constant(std::integral_constant<unsigned, 4>());
    case 8:
      return by_constant(std::integral_constant<unsigned, 8>());
    default:
      return general();
  }
}

/// Codes groups of up to `group` values one after the other: the group's shared numbers, then `bits` for each value.
/// @tparam Format has `kShared` floats that a group shares, `shared(values)`, which computes them as an array or as one
/// that has more for the encoder, and for one group `encoder(shared, values, group)` and `decoder(shared)`: functions
/// from a value to its number, and back. `group` is the group's number in the list.
template <class Format>
class PackedGroups final : public ValueCodec {
 public:
  PackedGroups(const Format& format, unsigned bits, std::size_t group) : format_(format), bits_(bits), group_(group) {}

  std::size_t code_bytes(std::size_t values) const override {
    const std::size_t rest = values % group_;
    return values / group_ * group_bytes(group_) + (rest > 0 ? group_bytes(rest) : 0);
  }

  void encode(View<const float> all, const EncodeContext&, View<std::byte> code) const override {
    std::byte* to = code.host().data();
    std::span<const float> values = all.host();
    for (std::size_t number = 0; !values.empty(); ++number) {
      const std::span<const float> group = values.first(std::min(group_, values.size()));
      values = values.subspan(group.size());
      const auto shared = format_.shared(group);
      store<Shared>(shared, to);
      encode_values(group, format_.encoder(shared, group, number), to + sizeof(Shared));
      to += group_bytes(group.size());
    }
  }

  std::span<const float> decode(std::span<const std::byte> code, std::size_t count,
                                Buffer<float>& scratch) const override {
    resize_with_slack(scratch, count);
    const std::byte* from = code.data();
    for (std::size_t begin = 0; begin < count; begin += group_) {
      const std::span<float> group = scratch.host().subspan(begin, std::min(group_, count - begin));
      const auto shared = load<Shared>(from);
      decode_values(from + sizeof(shared), format_.decoder(shared), group);
      from += group_bytes(group.size());
    }
    return scratch.host();
  }

 private:
  using Shared = std::array<float, Format::kShared>;

  /// Computes the numbers of a block before any is packed, so that both loops can use vectors.
  template <class NumberOf>
  void encode_values(std::span<const float> values, NumberOf number_of, std::byte* to) const {
    std::array<std::uint32_t, kPackedAtOnce> scratch;
    for (std::size_t begin = 0; begin < values.size(); begin += kPackedAtOnce) {
      const std::span<const float> block = values.subspan(begin, std::min(kPackedAtOnce, values.size() - begin));
      const std::span<std::uint32_t> numbers = std::span(scratch).first(block.size());
      for (std::size_t i = 0; i < block.size(); ++i) numbers[i] = number_of(block[i]);
      std::byte* const place = to + begin * bits_ / 8;
      with_bits(
          bits_, [&](auto bits) { pack_in_bytes<bits>(numbers, place); }, [&] { pack_numbers(bits_, numbers, place); });
    }
  }
  template <class ValueOf>
  void decode_values(const std::byte* from, ValueOf value_of, std::span<float> values) const {
    std::array<std::uint32_t, kPackedAtOnce> scratch;
    for (std::size_t begin = 0; begin < values.size(); begin += kPackedAtOnce) {
      const std::span<float> block = values.subspan(begin, std::min(kPackedAtOnce, values.size() - begin));
      const std::span<std::uint32_t> numbers = std::span(scratch).first(block.size());
      const std::byte* const place = from + begin * bits_ / 8;
      with_bits(
          bits_, [&](auto bits) { unpack_from_bytes<bits>(place, numbers); },
          [&] { unpack_numbers(bits_, place, numbers); });
      for (std::size_t i = 0; i < block.size(); ++i) block[i] = value_of(numbers[i]);
    }
  }

  std::size_t group_bytes(std::size_t values) const { return sizeof(Shared) + (values * bits_ + 7) / 8; }

  Format format_;
  unsigned bits_;
  std::size_t group_;
};

/// Partial results of a pass over values: as many chains of operations as need not wait for each other. The order of
/// the operations is the same everywhere.
inline constexpr std::size_t kLanes = 8;

/// Calls add(lane, value) for each value; the lanes take turns.
template <class Add>
void for_each_in_lanes(std::span<const float> values, Add add) {
  std::size_t begin = 0;
  for (; begin + kLanes <= values.size(); begin += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, values[begin + lane]);
  for (std::size_t i = begin; i < values.size(); ++i) add(i - begin, values[i]);
}

/// Returns the sum of the lanes' partial sums.
template <class T>
T sum_of_lanes(const std::array<T, kLanes>& lanes) {
  return std::accumulate(lanes.begin(), lanes.end(), T{});
}

/// Returns the sum of term(value).
template <class Term>
double sum_of(std::span<const float> values, Term term) {
  std::array<double, kLanes> lanes{};
  for_each_in_lanes(values, [&](std::size_t lane, float value) { lanes[lane] += term(value); });
  return sum_of_lanes(lanes);
}

/// Returns the nearest float. What is too large becomes the largest finite one, but infinity stays.
inline float saturated(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(value) ? std::clamp(value, -kLargest, kLargest) : value);
}

/// Returns the largest magnitude; NaN if a value is not finite.
inline float largest_magnitude(std::span<const float> values) {
  std::array<float, kLanes> largest{}, zero{};
  for_each_in_lanes(values, [&](std::size_t lane, float value) {
    const float magnitude = std::abs(value);
    largest[lane] = largest[lane] < magnitude ? magnitude : largest[lane];
    zero[lane] += value * 0;
  });
  return std::ranges::max(largest) + sum_of_lanes(zero);
}

}  // namespace dragonn::codec

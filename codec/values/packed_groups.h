// SPDX-License-Identifier: MIT
/// Packed groups: codecs that write neighbouring values as small numbers behind what the values share, a scale or a
/// table.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "codec/code_bytes.h"
#include "codec/indices/index_codec.h"
#include "codec/values/list_value_codec.h"

namespace dragonn::codec {

/// Packs numbers of `bits` bits, the least significant bit first.
class NumberPacker {
 public:
  NumberPacker(unsigned bits, std::byte* to) : bits_(bits), to_(to) {}
  void put(std::uint32_t number) {
    pending_ |= std::uint64_t{number} << used_;
    used_ += bits_;
    for (; used_ >= 8; used_ -= 8, pending_ >>= 8) *to_++ = static_cast<std::byte>(pending_);
  }
  void finish() {
    if (used_ > 0) *to_ = static_cast<std::byte>(pending_);
  }

 private:
  unsigned bits_;
  std::byte* to_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;
};

/// Unpacks them.
class NumberUnpacker {
 public:
  NumberUnpacker(unsigned bits, const std::byte* from) : bits_(bits), from_(from) {}
  std::uint32_t get() {
    for (; used_ < bits_; used_ += 8) pending_ |= std::to_integer<std::uint64_t>(*from_++) << used_;
    const auto number = static_cast<std::uint32_t>(pending_ & ((std::uint64_t{1} << bits_) - 1));
    pending_ >>= bits_;
    used_ -= bits_;
    return number;
  }

 private:
  unsigned bits_;
  const std::byte* from_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;
};

/// Codes groups of up to `group` values one after the other: the group's shared numbers, then `bits` for each value.
/// @tparam Format has `kShared` floats that a group shares, `shared(values)`, which computes them, and for one group
/// `encoder(shared, values)` and `decoder(shared)`: functions from a value to its number, and back.
template <class Format>
class PackedGroups final : public ListValueCodec {
 public:
  PackedGroups(const Format& format, unsigned bits, std::size_t group) : format_(format), bits_(bits), group_(group) {}

  std::size_t code_bytes(std::size_t values) const override {
    const std::size_t rest = values % group_;
    return values / group_ * group_bytes(group_) + (rest > 0 ? group_bytes(rest) : 0);
  }

  void encode(std::span<const float> values, std::span<std::byte> code) const override {
    std::byte* to = code.data();
    for (; !values.empty(); values = values.subspan(std::min(group_, values.size()))) {
      const std::span<const float> group = values.first(std::min(group_, values.size()));
      const auto shared = format_.shared(group);
      store(shared, to);
      auto number_of = format_.encoder(shared, group);
      NumberPacker packer(bits_, to + sizeof(shared));
      for (const float value : group) packer.put(number_of(value));
      packer.finish();
      to += group_bytes(group.size());
    }
  }

  std::span<const float> decode(std::span<const std::byte> code, std::size_t count,
                                Buffer<float>& room) const override {
    resize_with_room(room, count);
    const std::byte* from = code.data();
    for (std::size_t begin = 0; begin < count; begin += group_) {
      const std::span<float> group = room.host().subspan(begin, std::min(group_, count - begin));
      const auto shared = load<Shared>(from);
      const auto value_of = format_.decoder(shared);
      NumberUnpacker unpacker(bits_, from + sizeof(shared));
      for (float& value : group) value = value_of(unpacker.get());
      from += group_bytes(group.size());
    }
    return room.host();
  }

 private:
  using Shared = std::array<float, Format::kShared>;

  std::size_t group_bytes(std::size_t values) const { return sizeof(Shared) + (values * bits_ + 7) / 8; }

  Format format_;
  unsigned bits_;
  std::size_t group_;
};

/// Returns the largest magnitude; NaN if a value is not finite.
inline float largest_magnitude(std::span<const float> values) {
  float largest = 0, zero = 0;
  for (const float value : values) {
    largest = std::max(largest, value < 0 ? -value : value);
    zero += value * 0;
  }
  return largest + zero;
}

}  // namespace dragonn::codec

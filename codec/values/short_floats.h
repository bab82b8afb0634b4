// SPDX-License-Identifier: MIT
/// Short floats: codecs whose values are floating-point numbers of 16 bits.
#pragma once

#include "codec/code_bytes.h"
#include "codec/indices/index_codec.h"
#include "codec/values/list_value_codec.h"

namespace dragonn::codec {

/// Codes each value by itself. @tparam Format has `std::uint16_t encode(float)` and `float decode(std::uint16_t)`.
template <class Format>
class ShortFloats final : public ListValueCodec {
 public:
  std::size_t code_bytes(std::size_t values) const override { return values * sizeof(std::uint16_t); }
  void encode(std::span<const float> values, std::span<std::byte> code) const override {
    std::byte* const to = code.data();
    for (std::size_t i = 0; i < values.size(); ++i) store(Format::encode(values[i]), to + i * sizeof(std::uint16_t));
  }
  std::span<const float> decode(std::span<const std::byte> code, std::size_t count,
                                Buffer<float>& room) const override {
    resize_with_room(room, count);
    float* const to = room.data();
    const std::byte* const from = code.data();
    for (std::size_t i = 0; i < count; ++i)
      to[i] = Format::decode(load<std::uint16_t>(from + i * sizeof(std::uint16_t)));
    return room.host();
  }
};

}  // namespace dragonn::codec

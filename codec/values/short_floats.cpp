// SPDX-License-Identifier: MIT
/// The value codecs `bfloat16` and `float16`: floating-point numbers of 16 bits, rounded to nearest even; what is too
/// large becomes the largest finite number.
#include "core/short_floats.h"

#include "codec/code_bytes.h"
#include "codec/values/value_codec.h"

namespace dragonn::codec {
namespace {

/// Codes each value by itself. @tparam Format has `std::uint16_t encode(float)` and `float decode(std::uint16_t)`.
template <class Format>
class ShortFloats final : public ValueCodec {
 public:
  std::size_t code_bytes(std::size_t values) const override { return values * sizeof(std::uint16_t); }
  void encode(View<const float> values, const EncodeContext&, View<std::byte> code) const override {
    const float* const from = values.host().data();
    std::byte* const to = code.host().data();
    for (std::size_t i = 0; i < values.size(); ++i) store(Format::encode(from[i]), to + i * sizeof(std::uint16_t));
  }
  std::span<const float> decode(std::span<const std::byte> code, std::size_t count,
                                Buffer<float>& scratch) const override {
    resize_with_slack(scratch, count);
    float* const to = scratch.data();
    const std::byte* const from = code.data();
    for (std::size_t i = 0; i < count; ++i)
      to[i] = Format::decode(load<std::uint16_t>(from + i * sizeof(std::uint16_t)));
    return scratch.host();
  }
};

template <class Format>
ValueCodecEntry short_floats(RegistryEntry names) {
  return {std::move(names),
          /*lossy=*/true,
          /*unbiased=*/false,
          /*make=*/[](const Settings&) { return std::make_unique<ShortFloats<Format>>(); },
          /*carries_sums=*/true};
}

const Registration<ValueCodecEntry> bfloat16{
    short_floats<Bfloat16>({.name = "bfloat16", .summary = "values as the upper 16 bits of a float32, nearest even"})};
const Registration<ValueCodecEntry> float16{short_floats<Float16>(
    {.name = "float16", .summary = "values as IEEE binary16, nearest even", .source = "IEEE 754-2019, section 3.6"})};

}  // namespace
}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
/// The value codecs `bfloat16` and `float16`: floating-point numbers of 16 bits, rounded to nearest even; what is too
/// large becomes the largest finite number.
#include <bit>

#include "codec/code_bytes.h"
#include "codec/indices/index_codec.h"
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

constexpr std::uint32_t kSign = 0x80000000u;
constexpr std::uint32_t kInfinity = 0x7f800000u;
constexpr std::uint32_t kLargestBfloat16 = 0x7f7f0000u;
constexpr std::uint32_t kLargestFloat16 = 0x477fe000u;  // 65504
constexpr std::uint32_t kSmallestNormal = 0x38800000u;  // of float16: 2^-14
constexpr unsigned kLostBits = 13;                      // of the mantissa, in float16
constexpr std::uint32_t kExponentShift = (127u - 15u) << 23;

/// The upper half of a float32.
struct Bfloat16 {
  static std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits & kSign;
    std::uint32_t magnitude = bits & ~kSign;
    if (magnitude > kInfinity) return static_cast<std::uint16_t>(sign >> 16 | 0x7fc0u);
    magnitude = magnitude < kLargestBfloat16 ? magnitude : kLargestBfloat16;
    const std::uint32_t odd = magnitude >> 16 & 1;
    return static_cast<std::uint16_t>((sign | (magnitude + 0x7fffu + odd)) >> 16);
  }
  static float decode(std::uint16_t code) { return std::bit_cast<float>(std::uint32_t{code} << 16); }
};

/// IEEE 754 binary16.
struct Float16 {
  static std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    std::uint32_t magnitude = bits & ~kSign;
    const std::uint32_t sign = (bits & kSign) >> 16;
    if (magnitude > kInfinity) return static_cast<std::uint16_t>(sign | 0x7e00u);
    magnitude = magnitude < kLargestFloat16 ? magnitude : kLargestFloat16;
    if (magnitude < kSmallestNormal) {
      // Adding 0.5 leaves the multiples of 2^-24, rounded, in the low bits of the mantissa.
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
    }
    const std::uint32_t odd = magnitude >> kLostBits & 1;
    return static_cast<std::uint16_t>(sign | ((magnitude - kExponentShift + 0xfffu + odd) >> kLostBits));
  }

  static float decode(std::uint16_t code) {
    const std::uint32_t sign = (code & 0x8000u) << 16;
    const std::uint32_t magnitude = code & 0x7fffu;
    if (magnitude < 0x400u) {
      const float value = static_cast<float>(magnitude) * 0x1p-24f;
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
    }
    const std::uint32_t exponent = magnitude >= 0x7c00u ? kInfinity : 0;
    return std::bit_cast<float>(((magnitude << kLostBits) + kExponentShift) | exponent | sign);
  }
};

template <class Format>
ValueCodecEntry short_floats(RegistryEntry names) {
  return {std::move(names),
          /*lossy=*/true,
          /*unbiased=*/false,
          /*make=*/
          [](const Settings&) -> std::unique_ptr<ValueCodec> { return std::make_unique<ShortFloats<Format>>(); },
          /*carries_sums=*/true};
}

const Registration<ValueCodecEntry> bfloat16{
    short_floats<Bfloat16>({.name = "bfloat16", .summary = "values as the upper 16 bits of a float32, nearest even"})};
const Registration<ValueCodecEntry> float16{short_floats<Float16>(
    {.name = "float16", .summary = "values as IEEE binary16, nearest even", .source = "IEEE 754-2019, section 3.6"})};

}  // namespace
}  // namespace dragonn::codec

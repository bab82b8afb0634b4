// SPDX-License-Identifier: MIT
// Value codec "float16": IEEE 754 binary16, rounded to nearest even; what is too large becomes the largest finite
// number.
#include <bit>

#include "codec/values/short_floats.h"

namespace dragonn::codec {
namespace {

constexpr std::uint32_t kSign = 0x80000000u;
constexpr std::uint32_t kInfinity = 0x7f800000u;
constexpr std::uint32_t kLargest = 0x477fe000u;         // 65504
constexpr std::uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
constexpr unsigned kLostBits = 13;                      // of the mantissa
constexpr std::uint32_t kExponentShift = (127u - 15u) << 23;

struct Float16 {
  static std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    std::uint32_t magnitude = bits & ~kSign;
    const std::uint32_t sign = (bits & kSign) >> 16;
    if (magnitude > kInfinity) return static_cast<std::uint16_t>(sign | 0x7e00u);
    magnitude = magnitude < kLargest ? magnitude : kLargest;
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

const Registration<ListValueCodecEntry> registration{
    {{.name = "float16", .summary = "values as IEEE binary16, nearest even", .source = "IEEE 754-2019, section 3.6"},
     /*lossy=*/true,
     /*unbiased=*/false,
     /*make=*/
     [](const Settings&) -> std::unique_ptr<ListValueCodec> { return std::make_unique<ShortFloats<Float16>>(); },
     /*carries_sums=*/true}};

}  // namespace
}  // namespace dragonn::codec

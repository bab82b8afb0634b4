// SPDX-License-Identifier: MIT
// Value codec "bfloat16": the upper half of a float32, rounded to nearest even; what is too large becomes the largest
// finite number.
#include <bit>

#include "codec/values/short_floats.h"

namespace dragonn::codec {
namespace {

constexpr std::uint32_t kSign = 0x80000000u;
constexpr std::uint32_t kInfinity = 0x7f800000u;
constexpr std::uint32_t kLargest = 0x7f7f0000u;

struct Bfloat16 {
  static std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits & kSign;
    std::uint32_t magnitude = bits & ~kSign;
    if (magnitude > kInfinity) return static_cast<std::uint16_t>(sign >> 16 | 0x7fc0u);
    magnitude = magnitude < kLargest ? magnitude : kLargest;
    const std::uint32_t odd = magnitude >> 16 & 1;
    return static_cast<std::uint16_t>((sign | (magnitude + 0x7fffu + odd)) >> 16);
  }
  static float decode(std::uint16_t code) { return std::bit_cast<float>(std::uint32_t{code} << 16); }
};

const Registration<ListValueCodecEntry> registration{
    {{.name = "bfloat16", .summary = "values as the upper 16 bits of a float32, nearest even"},
     /*lossy=*/true,
     /*unbiased=*/false,
     /*make=*/
     [](const Settings&) -> std::unique_ptr<ListValueCodec> { return std::make_unique<ShortFloats<Bfloat16>>(); },
     /*carries_sums=*/true}};

}  // namespace
}  // namespace dragonn::codec

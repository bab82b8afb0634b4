// SPDX-License-Identifier: MIT
/// Floating-point numbers of 16 bits: float32 to and from their bits.
#pragma once

#include <bit>
#include <cstdint>

namespace dragonn {
namespace short_floats {

inline constexpr std::uint32_t kSign = 0x80000000u;
inline constexpr std::uint32_t kInfinity = 0x7f800000u;
inline constexpr std::uint32_t kLargestBfloat16 = 0x7f7f0000u;
inline constexpr std::uint32_t kLargestFloat16 = 0x477fe000u;  // 65504
inline constexpr std::uint32_t kSmallestNormal = 0x38800000u;  // of float16: 2^-14
inline constexpr unsigned kLostBits = 13;                      // of the mantissa, in float16
inline constexpr std::uint32_t kExponentShift = (127u - 15u) << 23;

}  // namespace short_floats

/// The upper half of a float32. Encoding rounds to nearest even; what is too large, infinity included, becomes the
/// largest number, and a NaN stays one.
struct Bfloat16 {
  static std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits & short_floats::kSign;
    std::uint32_t magnitude = bits & ~short_floats::kSign;
    if (magnitude > short_floats::kInfinity) return static_cast<std::uint16_t>(sign >> 16 | 0x7fc0u);
    magnitude = magnitude < short_floats::kLargestBfloat16 ? magnitude : short_floats::kLargestBfloat16;
    const std::uint32_t odd = magnitude >> 16 & 1;
    return static_cast<std::uint16_t>((sign | (magnitude + 0x7fffu + odd)) >> 16);
  }
  static float decode(std::uint16_t code) { return std::bit_cast<float>(std::uint32_t{code} << 16); }
};

/// IEEE 754 binary16. Encoding rounds as Bfloat16's.
struct Float16 {
  static std::uint16_t encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    std::uint32_t magnitude = bits & ~short_floats::kSign;
    const std::uint32_t sign = (bits & short_floats::kSign) >> 16;
    if (magnitude > short_floats::kInfinity) return static_cast<std::uint16_t>(sign | 0x7e00u);
    magnitude = magnitude < short_floats::kLargestFloat16 ? magnitude : short_floats::kLargestFloat16;
    if (magnitude < short_floats::kSmallestNormal) {
      // Adding 0.5 leaves the multiples of 2^-24, rounded, in the low bits of the mantissa.
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
    }
    const std::uint32_t odd = magnitude >> short_floats::kLostBits & 1;
    return static_cast<std::uint16_t>(
        sign | ((magnitude - short_floats::kExponentShift + 0xfffu + odd) >> short_floats::kLostBits));
  }

  static float decode(std::uint16_t code) {
    const std::uint32_t sign = (code & 0x8000u) << 16;
    const std::uint32_t magnitude = code & 0x7fffu;
    if (magnitude < 0x400u) {
      const float value = static_cast<float>(magnitude) * 0x1p-24f;
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
    }
    const std::uint32_t exponent = magnitude >= 0x7c00u ? short_floats::kInfinity : 0;
    return std::bit_cast<float>(((magnitude << short_floats::kLostBits) + short_floats::kExponentShift) | exponent |
                                sign);
  }
};

}  // namespace dragonn

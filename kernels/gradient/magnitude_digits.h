// SPDX-License-Identifier: MIT
/// Keys and digits of the radix selections of magnitudes, for every device.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace dragonn::kernels {

/// Returns a key that orders as |value| does: non-negative floats order as their bits do. A NaN counts as 0.
constexpr std::uint32_t magnitude_key(float value) {
  constexpr std::uint32_t kInfinityKey = 0x7f800000;
  const std::uint32_t key = std::bit_cast<std::uint32_t>(value) & 0x7fffffff;
  return key > kInfinityKey ? 0 : key;
}

/// A digit of the radix selection.
struct Digit {
  int shift;
  std::uint32_t values;
  constexpr std::uint32_t of(std::uint32_t key) const { return key >> shift & (values - 1); }
};
/// The three digits of 31 bits: the first holds the exponent and three bits more.
inline constexpr std::array kDigits{Digit{20, 2048}, Digit{9, 2048}, Digit{0, 512}};
/// The leading bits of a magnitude that the lower bound uses: exponent and four bits of the fraction.
inline constexpr Digit kBoundDigit{19, 4096};

}  // namespace dragonn::kernels

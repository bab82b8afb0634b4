// SPDX-License-Identifier: MIT
/// Bf16: the upper half of a float32, for devices that multiply in it.
#pragma once

#include <bit>
#include <cstdint>

#include "core/host_device.h"

namespace dragonn::kernels {

/// The bits of a bf16: sign, the exponent of float32, and 7 of its 23 bits of fraction.
using Bf16 = std::uint16_t;

/// Rounds to the nearest bf16; of two that are equally near, to the even one. A NaN stays one.
DRAGONN_HOST_DEVICE constexpr Bf16 to_bf16(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000, kMagnitude = 0x7fffffff, kQuiet = 0x40, kAlmostHalf = 0x7fff;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & kMagnitude) > kInfinity) return static_cast<Bf16>(bits >> 16 | kQuiet);
  return static_cast<Bf16>((bits + kAlmostHalf + (bits >> 16 & 1)) >> 16);
}

DRAGONN_HOST_DEVICE constexpr float from_bf16(Bf16 value) {
  return std::bit_cast<float>(std::uint32_t{value} << 16);
}

}  // namespace dragonn::kernels

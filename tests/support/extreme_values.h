// SPDX-License-Identifier: MIT
/// Extreme values: lists of finite floats at both ends of their range, for tests of codes.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/rng.h"

namespace dragonn::test {

/// Returns lists of the largest floats, of the smallest ones, and of both, with either sign.
inline std::vector<std::vector<float>> extreme_lists() {
  constexpr float kLargest = std::numeric_limits<float>::max(), kSmallest = std::numeric_limits<float>::denorm_min();
  std::vector<std::vector<float>> lists;
  for (const std::size_t count : {1u, 2u, 3u, 7u, 128u, 1500u}) {
    for (const float value : {kLargest, 1e38f, 1e-38f, 5e-40f, kSmallest}) {
      for (const float sign : {1.0f, -1.0f}) {
        lists.emplace_back(count, sign * value);
        // One of the other sign, every other one, and three of four.
        for (const std::size_t period : {count, std::size_t{2}, std::size_t{4}}) {
          std::vector<float>& mixed = lists.emplace_back(count, -sign * value);
          for (std::size_t i = 0; i < count; i += period) mixed[i] = sign * value;
        }
        lists.emplace_back(count, 0.0f)[count / 2] = sign * value;
        lists.emplace_back(count, 1.0f)[count / 2] = sign * value;
      }
    }
    // Two thirds of the largest float with the sign of few, among those of the largest ones of both signs.
    std::vector<float>& spread = lists.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = i % 100;
      spread[i] = kLargest * (place < 40 ? 1.0f : place < 80 ? -1.0f : place < 99 ? -0.66f : 0.54f);
    }
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      constexpr float kSizes[]{kLargest, kLargest / 2, kLargest / 8, 1e38f, 1.0f, 1e-38f, 1e-42f, kSmallest, 0.0f};
      Rng rng(seed, "extreme values", {count});
      const std::uint64_t kinds = 1 + rng.below(std::size(kSizes));
      for (float& value : lists.emplace_back(count)) {
        value = kSizes[rng.below(kinds)] * (0.5f + rng.uniform() / 2) * (rng.below(2) == 0 ? 1.0f : -1.0f);
      }
    }
  }
  return lists;
}

/// Returns whether all are finite, and so are the values less what they decode to.
inline bool leaves_finite(std::span<const float> values, std::span<const float> decoded) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(decoded[i]) || !std::isfinite(values[i] - decoded[i])) return false;
  }
  return true;
}

}  // namespace dragonn::test

// SPDX-License-Identifier: MIT
/// Philox4x32-10, for host and device.
#pragma once

#include <cstdint>

#include "core/device.h"

namespace dragonn {

struct PhiloxBlock {
  std::uint32_t words[4];
};

/// Returns one block (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
DRAGONN_HOST_DEVICE constexpr PhiloxBlock philox_block(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter.words[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter.words[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.words[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.words[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// Returns block `counter` of the stream Rng(key) of core/rng.h: its numbers 4 * counter to 4 * counter + 3.
DRAGONN_HOST_DEVICE constexpr PhiloxBlock stream_block(std::uint64_t key, std::uint64_t counter) {
  return philox_block({{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}},
                      static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
}

/// Converts a word as Rng::uniform() does: uniform in [0, 1), 24 bits.
DRAGONN_HOST_DEVICE constexpr float uniform_of(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

}  // namespace dragonn

// SPDX-License-Identifier: MIT
/// Rng: counter-based random streams (Philox4x32-10), keyed by their purpose, so that no draw depends on another
/// stream's progress. What host and device share is for both.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "core/device.h"

namespace dragonn {

/// Mixes 64 bits bijectively: the finalizer of splitmix64.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Returns a key made of a seed, a purpose and any numbers (epoch, step, sample, rank): equal inputs give equal keys on
/// every rank and platform.
std::uint64_t stream_key(std::uint64_t seed, std::string_view purpose,
                         std::initializer_list<std::uint64_t> numbers = {});

struct PhiloxBlock {
  std::uint32_t words[4];
};

/// Returns one block, a bijection of the counter for every key (Salmon et al., "Parallel random numbers: as easy as 1,
/// 2, 3", SC'11).
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

/// Returns block `counter` of the stream Rng(key): its numbers 4 * counter to 4 * counter + 3.
DRAGONN_HOST_DEVICE constexpr PhiloxBlock stream_block(std::uint64_t key, std::uint64_t counter) {
  return philox_block({{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}},
                      static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
}

/// Converts a word as Rng::uniform() does: uniform in [0, 1), 24 bits.
DRAGONN_HOST_DEVICE constexpr float uniform_of(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// A stream of Philox4x32-10 blocks. Its state is a key and a counter. It is a UniformRandomBitGenerator of 32 bits.
class Rng {
 public:
  using result_type = std::uint32_t;

  explicit Rng(std::uint64_t key, std::uint64_t counter = 0) : key_(key), counter_(counter) {}
  Rng(std::uint64_t seed, std::string_view purpose, std::initializer_list<std::uint64_t> numbers = {})
      : Rng(stream_key(seed, purpose, numbers)) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() {
    if (used_ == 4) refill();
    return block_[used_++];
  }

  std::uint64_t next64() {
    const std::uint64_t high = (*this)();
    return high << 32 | (*this)();
  }
  /// Returns a number uniform in [0, 1), of 24 bits.
  float uniform() { return static_cast<float>((*this)() >> 8) * 0x1p-24f; }
  /// Returns a number uniform in [0, 1), of 53 bits.
  double uniform_double() { return static_cast<double>(next64() >> 11) * 0x1p-53; }
  /// Returns a number uniform in [0, bound), without bias. `bound` must be positive.
  std::uint64_t below(std::uint64_t bound);
  /// Returns a standard normal number (Box-Muller, both values used).
  float normal();

 private:
  void refill();

  std::uint64_t key_;
  std::uint64_t counter_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
  bool has_spare_ = false;
  float spare_ = 0;
};

}  // namespace dragonn

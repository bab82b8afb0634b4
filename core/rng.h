// SPDX-License-Identifier: MIT
/// Rng: counter-based random streams, keyed by their purpose, so that no draw depends on another stream's progress.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>

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

/// Returns one block of Philox4x32-10 (core/philox.h): a bijection of the counter for every key.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

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

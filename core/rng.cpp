// SPDX-License-Identifier: MIT
#include "core/rng.h"

#include <cmath>
#include <numbers>

namespace dragonn {

std::uint64_t stream_key(std::uint64_t seed, std::string_view purpose, std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t key = mix64(seed);
  for (char letter : purpose) key = mix64(key ^ static_cast<unsigned char>(letter));
  // One more round, or with an empty purpose seed and first number would be interchangeable.
  key = mix64(key ^ purpose.size());
  for (std::uint64_t number : numbers) key = mix64(key ^ mix64(number));
  return key;
}

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

void Rng::refill() {
  block_ = philox4x32({static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32), 0, 0},
                      {static_cast<std::uint32_t>(key_), static_cast<std::uint32_t>(key_ >> 32)});
  ++counter_;
  used_ = 0;
}

std::uint64_t Rng::below(std::uint64_t bound) {
  // Lemire's multiply-shift with rejection of the short interval.
  __extension__ using Wide = unsigned __int128;
  std::uint64_t draw = next64();
  Wide product = static_cast<Wide>(draw) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<Wide>(next64()) * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

float Rng::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform_double()));
  const double angle = 2.0 * std::numbers::pi * uniform_double();
  spare_ = static_cast<float>(radius * std::sin(angle));
  has_spare_ = true;
  return static_cast<float>(radius * std::cos(angle));
}

}  // namespace dragonn

// SPDX-License-Identifier: MIT
#include "core/rng.h"

#include <cmath>
#include <numbers>

namespace dragonn {

std::uint64_t stream_key(std::uint64_t seed, std::string_view purpose, std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t key = mix64(seed);
  for (char letter : purpose) key = mix64(key ^ static_cast<unsigned char>(letter));
  // One more round: otherwise, with an empty purpose, seed and first number would be interchangeable.
  key = mix64(key ^ purpose.size());
  for (std::uint64_t number : numbers) key = mix64(key ^ mix64(number));
  return key;
}

void Rng::refill() {
  block_ = std::to_array(stream_block(key_, counter_).words);
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

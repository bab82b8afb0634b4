// SPDX-License-Identifier: MIT
/// Streams of bits, the most significant bit of a byte first.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "codec/code_bytes.h"

namespace dragonn::codec {

/// Writes bits into memory, eight bytes at a time: up to seven bytes behind the last bit are overwritten.
class BitWriter {
 public:
  static constexpr unsigned kMost = 56;  ///< bits of one put

  explicit BitWriter(std::byte* to) : to_(to) {}

  /// Appends the low `count` bits, most significant first. @param bits 0 above them.  @param count 1 to kMost.
  void put(std::uint64_t bits, unsigned count) {
    pending_ |= bits << (64 - used_ - count);
    used_ += count;
    store(__builtin_bswap64(pending_), to_);
    to_ += used_ / 8;
    pending_ <<= used_ & ~7u;
    used_ %= 8;
  }
  /// Returns the first byte behind the stream; the rest of the last byte is 0.
  std::byte* end() const { return to_ + (used_ > 0 ? 1 : 0); }

 private:
  std::byte* to_;
  std::uint64_t pending_ = 0;  // bits that are not in a whole byte yet, from the most significant on
  unsigned used_ = 0;          // of them, below 8
};

/// Returns the bits from `position` on, the next one as the most significant bit. At least kWindowBits are valid; the
/// rest is 0. Reads eight bytes.
inline constexpr unsigned kWindowBits = 57;
inline std::uint64_t bits_at(const std::byte* stream, std::size_t position) {
  return __builtin_bswap64(load<std::uint64_t>(stream + position / 8)) << (position % 8);
}

}  // namespace dragonn::codec

// SPDX-License-Identifier: MIT
/// FLAC files of silence for tests, byte by byte: a few bytes for 65,535 samples.
#pragma once

#include <cstdint>
#include <span>

#include "tests/data/dataset_fixture.h"

namespace dragonn::data {

/// Samples of a frame of flac_silence: the most that a frame has.
inline constexpr std::uint64_t kFlacFrame = 65535;

/// Returns the cyclic redundancy check of FLAC with that polynomial, of 8 or 16 bits.
inline std::uint32_t flac_check(std::span<const std::uint8_t> bytes, std::uint32_t polynomial, int bits) {
  std::uint32_t sum = 0;
  for (const std::uint8_t byte : bytes) {
    sum ^= static_cast<std::uint32_t>(byte) << (bits - 8);
    for (int i = 0; i < 8; ++i) sum = (sum >> (bits - 1)) != 0 ? sum << 1 ^ polynomial : sum << 1;
    sum &= (1u << bits) - 1;
  }
  return sum;
}

/// A FLAC file of one channel. @param stated the number of samples in its header: `frames` times kFlacFrame if honest,
/// 0 if unknown.
inline Bytes flac_silence(std::uint32_t frames, std::uint64_t stated, std::uint64_t rate = 16000) {
  Bytes bytes{'f', 'L', 'a', 'C', 0x80, 0, 0, 34};
  const auto append = [&](std::uint64_t value, int count) {
    for (int i = count - 1; i >= 0; --i) bytes.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  };
  append(kFlacFrame, 2);  // the smallest and the largest frame
  append(kFlacFrame, 2);
  append(0, 6);                                              // their bytes are unknown
  append(rate << 44 | std::uint64_t{15} << 36 | stated, 8);  // 1 channel of 16 bits
  append(0, 8);                                              // no checksum of the samples, in 16 bytes
  append(0, 8);
  for (std::uint32_t frame = 0; frame < frames; ++frame) {
    const std::size_t begin = bytes.size();
    append(0xfff87000, 4);  // frames of a fixed size, which 16 bits state; rate and bits of a sample as in the header
    if (frame < 0x80) {     // the number of the frame, coded as UTF-8 codes characters
      append(frame, 1);
    } else if (frame < 0x800) {
      append(0xc080 | (frame & 0x7c0) << 2 | (frame & 0x3f), 2);
    } else {
      append(0xe08080 | (frame & 0xf000) << 4 | (frame & 0xfc0) << 2 | (frame & 0x3f), 3);
    }
    append(kFlacFrame - 1, 2);
    append(flac_check(std::span(bytes).subspan(begin), 0x107, 8), 1);
    append(0, 3);  // a constant, of 16 bits
    append(flac_check(std::span(bytes).subspan(begin), 0x18005, 16), 2);
  }
  return bytes;
}

}  // namespace dragonn::data

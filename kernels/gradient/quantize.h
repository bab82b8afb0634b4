// SPDX-License-Identifier: MIT
/// Dense codes of a gradient: its signs (EF-SignSGD), or random levels of its magnitudes (QSGD).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/view.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

// All functions: float32 views and codes on one device. On the CPU OpenMP threads as omp_get_max_threads() says; the
// result depends neither on their number, nor on the vector width, nor on the device. Codes need no alignment.
// @throws ShapeError if a code has another length than its format says, DeviceError for memory of several devices, or
// of one without a row.

/// The start of a decoded sum, to which the codes are added one after the other, each times `factor`.
struct DecodeRule {
  bool keep = false;  ///< starts with the target's values; otherwise with zeros
  float factor = 1;
};

/// Returns the size of a sign code: a float32 scale, then ceil(n / 32) words. Bit i % 32 of word i / 32 says x_i >= 0;
/// the bits behind the last element are 0. Every element decodes to scale or -scale.
std::size_t sign_code_bytes(std::size_t numel);
/// Encodes signs. Reads 4 bytes per element, writes 1/8. A NaN counts as negative.
extern Operation<void(View<const float> values, float scale, View<std::byte> code)> encode_signs;
/// Decodes and adds up sign codes. @param codes any number of codes of target.size() elements, back to back.  @param
/// target [n].
/// One sweep: 1/8 byte per code and element read, 4 bytes per element written (and read, to keep it).
extern Operation<void(View<const std::byte> codes, const DecodeRule& rule, View<float> target)> decode_signs;

/// The format of a level code: the Euclidean norms of the groups as float32, ceil(n / group) of them, then one int8 per
/// element. An element decodes to norm * level / levels.
struct LevelFormat {
  std::size_t group = 128;  ///< elements that share a norm; the last group may have fewer
  int levels = 127;         ///< levels of a magnitude, 1 to 127: the norm itself has the highest
};
std::size_t level_code_bytes(std::size_t numel, const LevelFormat& format);
/// Encodes levels. y = levels * |x| / norm is rounded down, or up with the probability of its fraction: if the draw of
/// element i, which is uniform number i of Rng(key), is below it (QSGD, section 3.1). A group of zeros has norm 0 and
/// levels 0. A norm that is too large for a float becomes about the largest one. A group with NaN or infinity has a
/// norm that is not finite. Reads 4 bytes per element, writes 1.
extern Operation<void(View<const float> values, const LevelFormat& format, std::uint64_t key, View<std::byte> code)>
    encode_levels;
/// Decodes and adds up level codes, as decode_signs: 1 byte per code and element read.
extern Operation<void(View<const std::byte> codes, const LevelFormat& format, const DecodeRule& rule,
                      View<float> target)>
    decode_levels;

}  // namespace dragonn::kernels

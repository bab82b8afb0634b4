// SPDX-License-Identifier: MIT
/// Histograms of the keys of magnitudes (kernels/gradient/magnitude_digits.h), on the CPU's threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "kernels/gradient/magnitude_digits.h"

namespace dragonn::kernels::detail {

// What is ranked: magnitudes, or keys of magnitudes.
inline std::uint32_t key_of(float value) {
  return magnitude_key(value);
}
inline std::uint32_t key_of(std::uint32_t key) {
  return key;
}

/// `count` bins of 2^shift keys each, from `low` on.
struct Bins {
  std::uint32_t low;
  int shift;
  std::size_t count;
  std::uint32_t of(std::uint32_t key) const { return (key - low) >> shift; }
};

/// How many of the ranked are in each bin; every one is in some. `room` holds the result, and grows to at most
/// histogram_room(ranked.size(), bins.count).
std::span<const std::uint32_t> count_bins(std::span<const float> ranked, const Bins& bins, Buffer<std::uint32_t>& room);
std::span<const std::uint32_t> count_bins(std::span<const std::uint32_t> ranked, const Bins& bins,
                                          Buffer<std::uint32_t>& room);
std::size_t histogram_room(std::size_t size, std::size_t bins);

/// The bin of the k-th largest, from the bins' counts; *k becomes its rank in that bin.
std::uint32_t find_bin(std::span<const std::uint32_t> counts, std::size_t* k);

}  // namespace dragonn::kernels::detail

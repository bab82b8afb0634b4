// SPDX-License-Identifier: MIT
/// Histograms of the keys of magnitudes (kernels/gradient/magnitude_digits.h), on the CPU's threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "kernels/gradient/magnitude_digits.h"

namespace dragonn::kernels::detail {

// The functions below rank magnitudes, or keys of magnitudes.
inline std::uint32_t key_of(float value) {
  return magnitude_key(value);
}
inline std::uint32_t key_of(std::uint32_t key) {
  return key;
}

/// A row of `count` bins of 2^shift keys each, from `low` on.
struct Bins {
  std::uint32_t low;
  int shift;
  std::size_t count;
  std::uint32_t of(std::uint32_t key) const { return (key - low) >> shift; }
};

/// Counts the ranked values in each bin; every value is in some bin. `room` holds the result, and grows to at most
/// histogram_room(ranked.size(), bins.count).
std::span<const std::uint32_t> count_bins(std::span<const float> ranked, const Bins& bins, Buffer<std::uint32_t>& room);
std::span<const std::uint32_t> count_bins(std::span<const std::uint32_t> ranked, const Bins& bins,
                                          Buffer<std::uint32_t>& room);
std::size_t histogram_room(std::size_t size, std::size_t bins);

/// Returns the bin of the k-th largest, from the bins' counts; *k becomes its rank in that bin.
std::uint32_t find_bin(std::span<const std::uint32_t> counts, std::size_t* k);

}  // namespace dragonn::kernels::detail

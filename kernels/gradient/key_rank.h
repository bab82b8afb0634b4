// SPDX-License-Identifier: MIT
/// Ranks of magnitudes on the CPU, exactly and without sorting: by histograms, and by splits at a range of keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "kernels/gradient/magnitude.h"

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

/// Counts the ranked values in each bin; every value is in some bin. `scratch` holds the result, and grows to at most
/// histogram_capacity(ranked.size(), bins.count).
std::span<const std::uint32_t> count_bins(std::span<const float> ranked, const Bins& bins,
                                          Buffer<std::uint32_t>& scratch);
std::span<const std::uint32_t> count_bins(std::span<const std::uint32_t> ranked, const Bins& bins,
                                          Buffer<std::uint32_t>& scratch);
std::size_t histogram_capacity(std::size_t size, std::size_t bins);

/// Returns the bin of the k-th largest, from the bins' counts; *k becomes its rank in that bin.
std::uint32_t find_bin(std::span<const std::uint32_t> counts, std::size_t* k);

/// The keys from `low` to `high`, both included.
struct KeyRange {
  std::uint32_t low;
  std::uint32_t high;
};

struct BandCounts {
  std::size_t above = 0;
  std::size_t inside = 0;
};

/// The key (kernels/gradient/magnitude.h) of the k-th largest magnitude, 0 < k <= values.size(). Of many values
/// a sample gives a range that all but always holds the result: they are read once, and what is inside of it is ranked,
/// about one in fifty. Where it does not, or of few, histograms narrow the range of all keys: three readings, then few.
std::uint32_t kth_largest_key(std::span<const float> values, std::size_t k, MagnitudeScratch& scratch);

}  // namespace dragonn::kernels::detail

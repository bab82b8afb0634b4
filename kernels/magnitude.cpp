// SPDX-License-Identifier: MIT
#include "kernels/magnitude.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/gradient_pass_chunks.h"
#include "kernels/gradient_pass_sweep.h"
#include "kernels/magnitude_digits.h"
#include "kernels/same_device.h"
#include "kernels/select.h"
#include "kernels/sweep_count.h"

namespace dragonn::kernels {
namespace {

/// A histogram of keys: `count` bins of 2^shift keys each, from `low` on.
struct Bins {
  std::uint32_t low;
  int shift;
  std::size_t count;
  std::uint32_t of(std::uint32_t key) const { return (key - low) >> shift; }
};

/// The bin of the k-th largest key, from the bins' counts; *k becomes its rank among the keys of that bin.
std::uint32_t find_bin(std::span<const std::uint32_t> counts, std::size_t* k) {
  std::size_t bin = counts.size();
  do {
    --bin;
    if (counts[bin] >= *k) break;
    *k -= counts[bin];
  } while (bin > 0);
  return static_cast<std::uint32_t>(bin);
}

/// Pieces with a histogram each: few, since every one is as much work as a histogram is long.
detail::Chunks histogram_pieces(std::size_t size) {
  return {size, std::max<std::size_t>(1u << 16, size / 16)};
}

// What is ranked: magnitudes, or keys of magnitudes that are left of them.
std::uint32_t key_of(float value) {
  return magnitude_key(value);
}
std::uint32_t key_of(std::uint32_t key) {
  return key;
}

/// How many of the ranked are in each bin. `histograms` is room for it.
template <class Ranked>
std::span<const std::uint32_t> count_bins(std::span<const Ranked> ranked, const Bins& bins,
                                          Buffer<std::uint32_t>& histograms) {
  // Two for each piece, by turns: increments of the same counter wait for each other, and neighbours are often alike.
  const detail::Chunks pieces = histogram_pieces(ranked.size());
  histograms.resize_discard(2 * pieces.count() * bins.count);
  for_each_chunk(pieces, [&](std::size_t piece) {
    std::uint32_t* const even = histograms.data() + 2 * piece * bins.count;
    std::uint32_t* const odd = even + bins.count;
    std::fill_n(even, 2 * bins.count, 0);
    std::size_t i = pieces.begin(piece);
    for (; i + 1 < pieces.end(piece); i += 2) {
      ++even[bins.of(key_of(ranked[i]))];
      ++odd[bins.of(key_of(ranked[i + 1]))];
    }
    if (i < pieces.end(piece)) ++even[bins.of(key_of(ranked[i]))];
  });
  const std::span<std::uint32_t> total = histograms.host().first(bins.count);
  for (std::size_t other = 1; other < 2 * pieces.count(); ++other) {
    const std::uint32_t* const histogram = histograms.data() + other * bins.count;
    for (std::size_t bin = 0; bin < bins.count; ++bin) total[bin] += histogram[bin];
  }
  return total;
}

/// The smallest and the largest key. There is one.
std::pair<std::uint32_t, std::uint32_t> key_range(std::span<const float> values) {
  const detail::Chunks pieces(values.size(), 32768);
  std::array<std::pair<std::int32_t, std::int32_t>, detail::kMaxChunks> ranges;
  for_each_chunk(pieces, [&](std::size_t piece) {
    // Keys have 31 bits; signed ones are compared faster.
    std::int32_t low = std::numeric_limits<std::int32_t>::max(), high = 0;
    for (std::size_t i = pieces.begin(piece); i < pieces.end(piece); ++i) {
      const auto key = static_cast<std::int32_t>(magnitude_key(values[i]));
      low = std::min(low, key);
      high = std::max(high, key);
    }
    ranges[piece] = {low, high};
  });
  auto [low, high] = ranges[0];
  for (const auto& [piece_low, piece_high] : std::span(ranges).first(pieces.count())) {
    low = std::min(low, piece_low);
    high = std::max(high, piece_high);
  }
  return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(high)};
}

/// The keys of one bin, in the order of the ranked: in `keys`, which may hold the ranked themselves.
template <class Ranked>
std::span<const std::uint32_t> collect_keys(std::span<const Ranked> ranked, const Bins& bins, std::uint32_t wanted,
                                            std::uint32_t* keys) {
  const detail::Chunks pieces(ranked.size(), 32768);
  std::array<std::size_t, detail::kMaxChunks> counts{};
  for_each_chunk(pieces, [&](std::size_t piece) {
    // Every key is written, and stays if it is counted.
    std::uint32_t* const begin = keys + pieces.begin(piece);
    std::uint32_t* next = begin;
    for (std::size_t i = pieces.begin(piece); i < pieces.end(piece); ++i) {
      *next = key_of(ranked[i]);
      next += bins.of(*next) == wanted ? 1 : 0;
    }
    counts[piece] = static_cast<std::size_t>(next - begin);
  });
  std::size_t total = 0;
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    std::memmove(keys + total, keys + pieces.begin(piece), counts[piece] * sizeof(std::uint32_t));
    total += counts[piece];
  }
  return {keys, total};
}

constexpr int kBinBits = 11;

/// The key of the k-th largest magnitude, 0 < k <= values.size(): a histogram of all keys between the smallest and the
/// largest, then of the keys in the bin that holds the result. All values are read three times, few are left then.
std::uint32_t kth_largest_key(std::span<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  scratch.keys.resize_discard(values.size());
  auto [low, high] = key_range(values);
  std::span<const std::uint32_t> keys;
  // Finds the bin, and leaves its keys.
  const auto narrow = [&](auto ranked) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(high - low)) - kBinBits);
    const Bins bins{low, shift, (std::size_t{high - low} >> shift) + 1};
    const std::uint32_t found = find_bin(count_bins(ranked, bins, scratch.histogram), &k);
    low += found << shift;
    high = std::min(high, low + (1u << shift) - 1);
    if (low < high) keys = collect_keys(ranked, bins, found, scratch.keys.data());
  };
  narrow(values);
  while (low < high) narrow(keys);
  return low;
}

/// Drops the last `excess` of the entries whose key is `key`.
void drop_last_ties(SparseVector& entries, std::uint32_t key, std::size_t excess) {
  const auto values = entries.values.host();
  const auto ties = std::ranges::count_if(values, [&](float value) { return magnitude_key(value) == key; });
  std::size_t ties_left = static_cast<std::size_t>(ties) - excess;
  std::size_t count = 0;
  for (std::size_t entry = 0; entry < values.size(); ++entry) {
    if (magnitude_key(values[entry]) == key) {
      if (ties_left == 0) continue;
      --ties_left;
    }
    entries.indices.data()[count] = entries.indices.data()[entry];
    values[count++] = values[entry];
  }
  entries.truncate(count);
}

float kth_largest_cpu(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  return std::bit_cast<float>(kth_largest_key(values.host(), k, scratch));
}

float keep_largest_cpu(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  const std::uint32_t smallest = kth_largest_key(entries.values.host(), k, scratch);
  filter_threshold(entries, std::bit_cast<float>(smallest), kept);
  if (kept.size() > k) drop_last_ties(kept, smallest, kept.size() - k);
  return std::bit_cast<float>(smallest);
}

float lower_bound_cpu(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  constexpr Bins kBins{0, kBoundDigit.shift, kBoundDigit.values};
  const auto counts = count_bins(std::span<const float>(values.host()), kBins, scratch.histogram);
  return std::bit_cast<float>(find_bin(counts, &k) << kBins.shift);
}

Moments moments_cpu(View<const float> values) {
  Moments moments;
  detail::sweep_moments({.gradient = values.data()}, {0, values.size()}, moments);
  return moments;
}

}  // namespace

void MagnitudeScratch::reserve(std::size_t numel) {
  if (!keys.device().is_cpu()) return;
  keys.resize_discard(numel);
  histogram.resize_discard(2 * histogram_pieces(numel).count() * kBoundDigit.values);
  candidates.resize_discard(numel);
  candidates.clear();
}

KthLargestTable& kth_largest_table() {
  static KthLargestTable table("kth_largest_magnitude", kth_largest_cpu);
  return table;
}
KeepLargestTable& keep_largest_table() {
  static KeepLargestTable table("keep_largest", keep_largest_cpu);
  return table;
}
LowerBoundTable& magnitude_lower_bound_table() {
  static LowerBoundTable table("magnitude_lower_bound", lower_bound_cpu);
  return table;
}
MomentsTable& magnitude_moments_table() {
  static MomentsTable table("magnitude_moments", moments_cpu);
  return table;
}

float kth_largest_magnitude(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  DRAGONN_CHECK(k > 0, "the {}-th largest magnitude; ranks start at 1", k);
  if (k > values.size()) return 0;
  check_same_device("kth_largest_magnitude", values.device(), scratch.keys.device());
  return kth_largest_table().at(values.device())(values, k, scratch);
}

float keep_largest(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  if (k == 0 || entries.empty()) {
    kept.clear();
    return 0;
  }
  check_same_device("keep_largest", entries.device(), kept.device());
  check_same_device("keep_largest", entries.device(), scratch.keys.device());
  return keep_largest_table().at(entries.device())(entries, std::min(k, entries.size()), scratch, kept);
}

float magnitude_lower_bound(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  if (k == 0 || k >= values.size()) return 0;
  check_same_device("magnitude_lower_bound", values.device(), scratch.keys.device());
  count_swept(values.size());
  return magnitude_lower_bound_table().at(values.device())(values, k, scratch);
}

float select_largest(View<const float> values, std::size_t k, const SparseVector& candidates, float bound,
                     MagnitudeScratch& scratch, SparseVector& selected) {
  // Fewer than k candidates are enough if the bound left out nothing but zeros.
  if (candidates.size() >= k || bound <= 0) return keep_largest(candidates, k, scratch, selected);
  select_threshold(values, magnitude_lower_bound(values, k, scratch), scratch.candidates);
  return keep_largest(scratch.candidates, k, scratch, selected);
}

Moments magnitude_moments(View<const float> values) {
  return magnitude_moments_table().at(values.device())(values);
}

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/magnitude.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include <hwy/highway.h>

#include "kernels/devices.h"
#include "kernels/gradient/gradient_pass.h"
#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"
#include "kernels/pieces.h"

#ifndef DRAGONN_KEY_RANGE  // once, not per instruction set
#define DRAGONN_KEY_RANGE
namespace dragonn::kernels::detail {

/// The keys from `low` to `high`, both included.
struct KeyRange {
  std::uint32_t low;
  std::uint32_t high;
};

struct BandCounts {
  std::size_t above = 0;
  std::size_t inside = 0;
};

}  // namespace dragonn::kernels::detail
#endif

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Splits whole vectors of values from *position on. Keys have 31 bits, so they are compared as signed numbers.
template <class D>
HWY_INLINE void split_vectors(D d, const float* values, std::size_t* position, std::size_t end, const KeyRange& range,
                              std::uint32_t* keys, BandCounts* counts) {
  const hn::RebindToSigned<D> di;
  const auto infinity = hn::Set(di, 0x7f800000);
  const auto low = hn::Set(di, static_cast<std::int32_t>(range.low));
  const auto high = hn::Set(di, static_cast<std::int32_t>(range.high));
  const std::size_t lanes = hn::Lanes(d);
  BandCounts found = *counts;
  std::size_t i = *position;
  for (; i + lanes <= end; i += lanes) {
    const auto bits = hn::BitCast(di, hn::Abs(hn::LoadU(d, values + i)));
    const auto key = hn::IfThenZeroElse(hn::Gt(bits, infinity), bits);
    const auto above = hn::Gt(key, high);
    const auto inside = hn::Not(hn::Or(above, hn::Lt(key, low)));
    found.above += hn::CountTrue(di, above);
    // Writes all lanes behind the hits too: later ones overwrite them, and there is room for as many as were seen.
    hn::StoreU(hn::Compress(key, inside), di, reinterpret_cast<std::int32_t*>(keys + found.inside));
    found.inside += hn::CountTrue(di, inside);
  }
  *position = i;
  *counts = found;
}

/// Writes the keys of values[begin, end) in the range, in order, to keys [end - begin]. Counts these and larger ones.
BandCounts SplitBandChunk(const float* values, std::size_t begin, std::size_t end, const KeyRange& range,
                          std::uint32_t* keys) {
  std::size_t position = begin;
  BandCounts counts;
  split_vectors(hn::ScalableTag<float>(), values, &position, end, range, keys, &counts);
  split_vectors(hn::CappedTag<float, 1>(), values, &position, end, range, keys, &counts);
  return counts;
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(SplitBandChunk);
}  // namespace detail

namespace {

using detail::BandCounts;
using detail::Chunks;
using detail::KeyRange;

// The functions below rank magnitudes, or keys of magnitudes.
std::uint32_t key_of(float value) {
  return magnitude_key(value);
}
std::uint32_t key_of(std::uint32_t key) {
  return key;
}

/// A row of `count` bins of 2^shift keys each, from `low` on.
struct Bins {
  std::uint32_t low;
  int shift;
  std::size_t count;
  std::uint32_t of(std::uint32_t key) const { return (key - low) >> shift; }
};

constexpr std::size_t kMaxHistogramPieces = 16;

/// Returns the pieces. Each has two histograms, so they are few: every histogram is as much work as it is long.
Chunks histogram_pieces(std::size_t size) {
  return {size, std::max<std::size_t>(1u << 16, (size + kMaxHistogramPieces - 1) / kMaxHistogramPieces)};
}

/// Counts the ranked values in each bin; every value is in some bin. `scratch` holds the result.
template <class Ranked>
std::span<const std::uint32_t> count_bins(std::span<const Ranked> ranked, const Bins& bins,
                                          Buffer<std::uint32_t>& scratch) {
  const Chunks pieces = histogram_pieces(ranked.size());
  scratch.resize_discard(2 * pieces.count() * bins.count);
  for_each_chunk(pieces, [&](std::size_t piece) {
    // The histograms take turns: increments of one counter wait for each other, and neighbours are often alike.
    std::uint32_t* const even = scratch.data() + 2 * piece * bins.count;
    std::uint32_t* const odd = even + bins.count;
    std::fill_n(even, 2 * bins.count, 0);
    std::size_t i = pieces.begin(piece);
    for (; i + 1 < pieces.end(piece); i += 2) {
      ++even[bins.of(key_of(ranked[i]))];
      ++odd[bins.of(key_of(ranked[i + 1]))];
    }
    if (i < pieces.end(piece)) ++even[bins.of(key_of(ranked[i]))];
  });
  const std::span<std::uint32_t> total = scratch.host().first(bins.count);
  for (std::size_t other = 1; other < 2 * pieces.count(); ++other) {
    const std::uint32_t* const histogram = scratch.data() + other * bins.count;
    for (std::size_t bin = 0; bin < bins.count; ++bin) total[bin] += histogram[bin];
  }
  return total;
}

/// Returns the bin of the k-th largest, from the bins' counts; *k becomes its rank in that bin.
std::uint32_t find_bin(std::span<const std::uint32_t> counts, std::size_t* k) {
  std::size_t bin = counts.size();
  do {
    --bin;
    if (counts[bin] >= *k) break;
    *k -= counts[bin];
  } while (bin > 0);
  return static_cast<std::uint32_t>(bin);
}

constexpr int kBinBits = 11;
constexpr std::size_t kSampleSize = 4096;
/// The fewest values for which a sample saves more than it costs.
constexpr std::size_t kMinSampled = 1u << 16;
constexpr std::size_t kPiece = 32768;

/// Joins the pieces' keys, each at the places of its values, to one list.
std::span<const std::uint32_t> join(const Chunks& pieces, std::span<const std::size_t> counts, std::uint32_t* keys) {
  std::size_t total = 0;
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    std::memmove(keys + total, keys + pieces.begin(piece), counts[piece] * sizeof(std::uint32_t));
    total += counts[piece];
  }
  return {keys, total};
}

/// Returns the keys of one bin, in the order of the ranked values, in `keys`, which may hold these themselves.
template <class Ranked>
std::span<const std::uint32_t> collect_bin(std::span<const Ranked> ranked, const Bins& bins, std::uint32_t wanted,
                                           std::uint32_t* keys) {
  const Chunks pieces(ranked.size(), kPiece);
  std::array<std::size_t, kMaxPieces> counts{};
  for_each_chunk(pieces, [&](std::size_t piece) {
    // Every key is written, but stays only if it is counted.
    std::uint32_t* const begin = keys + pieces.begin(piece);
    std::uint32_t* next = begin;
    for (std::size_t i = pieces.begin(piece); i < pieces.end(piece); ++i) {
      *next = key_of(ranked[i]);
      next += bins.of(*next) == wanted ? 1 : 0;
    }
    counts[piece] = static_cast<std::size_t>(next - begin);
  });
  return join(pieces, counts, keys);
}

/// Returns the k-th largest of keys that are all in the range: finds the bin that holds it, then the bin of that bin.
template <class Ranked>
std::uint32_t rank_in_range(std::span<const Ranked> ranked, KeyRange range, std::size_t k, MagnitudeScratch& scratch) {
  if (range.low == range.high) return range.low;
  const int shift = std::max(0, static_cast<int>(std::bit_width(range.high - range.low)) - kBinBits);
  const Bins bins{range.low, shift, (std::size_t{range.high - range.low} >> shift) + 1};
  const std::uint32_t found = find_bin(count_bins(ranked, bins, scratch.histogram), &k);
  range.low += found << shift;
  range.high = std::min(range.high, range.low + (1u << shift) - 1);
  if (range.low == range.high) return range.low;
  return rank_in_range(collect_bin(ranked, bins, found, scratch.keys.data()), range, k, scratch);
}

/// Returns the range of four standard deviations of the sample's rank to both sides of the k-th largest.
KeyRange sample_range(std::span<const float> values, std::size_t k) {
  std::array<std::uint32_t, kSampleSize> sample;
  const std::size_t stride = values.size() / kSampleSize;
  for (std::size_t i = 0; i < kSampleSize; ++i) sample[i] = magnitude_key(values[i * stride]);
  const double share = static_cast<double>(k) / static_cast<double>(values.size());
  const double rank = share * kSampleSize, margin = 4 * std::sqrt(rank * (1 - share)) + 2;
  const auto key_at = [&](double place) {
    const auto nth = sample.begin() + static_cast<std::ptrdiff_t>(place);
    std::nth_element(sample.begin(), nth, sample.end(), std::greater());
    return *nth;
  };
  return {rank + margin < kSampleSize ? key_at(rank + margin) : 0,
          rank - margin >= 0 ? key_at(rank - margin) : std::numeric_limits<std::int32_t>::max()};
}

/// Returns the key of the k-th largest magnitude, 0 < k <= values.size(), exactly and without sorting. Of many values a
/// sample gives a range that all but always holds the result: they are read once, and what is inside of it is ranked,
/// about one in fifty. Where it does not, or of few, histograms narrow the range of all keys: two readings, then few.
std::uint32_t kth_largest_key(std::span<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  scratch.keys.resize_discard(values.size());
  if (values.size() >= kMinSampled) {
    const KeyRange range = sample_range(values, k);
    const Chunks pieces(values.size(), kPiece);
    std::array<std::size_t, kMaxPieces> above{}, inside{};
    for_each_chunk(pieces, [&](std::size_t piece) {
      const BandCounts counts = HWY_DYNAMIC_DISPATCH(detail::SplitBandChunk)(
          values.data(), pieces.begin(piece), pieces.end(piece), range, scratch.keys.data() + pieces.begin(piece));
      above[piece] = counts.above;
      inside[piece] = counts.inside;
    });
    const std::span<const std::uint32_t> keys = join(pieces, inside, scratch.keys.data());
    const std::size_t larger = std::accumulate(above.begin(), above.end(), std::size_t{0});
    if (larger < k && k <= larger + keys.size()) return rank_in_range(keys, range, k - larger, scratch);
  }
  return rank_in_range(values, {0, magnitude_key(std::numeric_limits<float>::infinity())}, k, scratch);
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

/// Returns whether there are entries to keep; else keeps none.
bool has_choice(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  if (k > 0 && !entries.empty()) return true;
  kept.clear();
  scratch.smallest.resize_discard(0);
  return false;
}

float keep_largest_cpu(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  k = std::min(k, entries.size());
  const std::uint32_t smallest = kth_largest_key(entries.values.host(), k, scratch);
  filter_threshold(entries, std::bit_cast<float>(smallest), kept);
  if (kept.size() > k) drop_last_ties(kept, smallest, kept.size() - k);
  return std::bit_cast<float>(smallest);
}

void start_keep_largest_cpu(const SparseVector& entries, std::size_t k, MagnitudeScratch& scratch, SparseVector& kept) {
  scratch.smallest.resize_discard(1);
  scratch.smallest.data()[0] = keep_largest_cpu(entries, k, scratch, kept);
}

float lower_bound_cpu(View<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  constexpr Bins kBins{0, kBoundDigit.shift, kBoundDigit.values};
  const auto counts = count_bins(std::span<const float>(values.host()), kBins, scratch.histogram);
  return std::bit_cast<float>(find_bin(counts, &k) << kBins.shift);
}

Moments moments_cpu(View<const float> values) {
  Moments moments;
  detail::sweep_moments({.gradient = values.data()}, values.size(), moments);
  return moments;
}

}  // namespace

void MagnitudeScratch::reserve(std::size_t numel) {
  if (!keys.device().is_cpu()) return;
  keys.resize_discard(numel);
  detail::use_small_pages(keys);
  histogram.resize_discard(2 * histogram_pieces(numel).count() * kBoundDigit.values);
  smallest.resize_discard(1);
  reserve_selection(candidates, numel);
}

constinit decltype(kth_largest_magnitude) kth_largest_magnitude(
    "kth_largest_magnitude", kth_largest_cpu, [](auto values, std::size_t k, MagnitudeScratch&) {
      DRAGONN_CHECK(k > 0, "the {}-th largest magnitude; ranks start at 1", k);
      return k <= values.size();
    });
constinit decltype(keep_largest) keep_largest("keep_largest", keep_largest_cpu, has_choice);
constinit decltype(start_keep_largest) start_keep_largest("start_keep_largest", start_keep_largest_cpu, has_choice);
constinit decltype(magnitude_lower_bound) magnitude_lower_bound("magnitude_lower_bound", lower_bound_cpu,
                                                                [](auto values, std::size_t k, MagnitudeScratch&) {
                                                                  if (k == 0 || k >= values.size()) return false;
                                                                  count_swept(values.size());
                                                                  return true;
                                                                });
constinit decltype(magnitude_moments) magnitude_moments("magnitude_moments", moments_cpu);

float smallest_kept(const MagnitudeScratch& scratch) {
  if (scratch.smallest.size() == 0) return 0;
  synchronize(scratch.device());
  return scratch.smallest.host()[0];
}

void select_largest(View<const float> values, std::size_t k, const SparseVector& candidates, float bound,
                    MagnitudeScratch& scratch, SparseVector& selected) {
  // Fewer than k candidates are enough if the bound left out nothing but zeros.
  if (candidates.size() >= k || bound <= 0) return start_keep_largest(candidates, k, scratch, selected);
  select_threshold(values, magnitude_lower_bound(values, k, scratch), scratch.candidates);
  start_keep_largest(scratch.candidates, k, scratch, selected);
}

void SampleScratch::reserve(std::size_t numel) {
  if (!magnitudes.device().is_cpu()) return;
  magnitudes.resize_discard(numel);
  ranking.reserve(numel);
}

std::size_t sample_strata(std::size_t numel, std::size_t stride) {
  const std::size_t lines = (numel + kLineElements - 1) / kLineElements;
  return (lines + stride - 1) / stride;
}

std::size_t sample_size(std::size_t numel, const SamplePlan& plan) {
  const std::size_t strata = sample_strata(numel, plan.stride);
  if (strata == 0) return 0;
  const std::size_t last_line = sampled_line(numel, plan, strata - 1);
  return (strata - 1) * kLineElements + std::min(kLineElements, numel - last_line);
}

}  // namespace dragonn::kernels
#endif  // HWY_ONCE

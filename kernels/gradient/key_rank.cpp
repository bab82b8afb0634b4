// SPDX-License-Identifier: MIT
#include "kernels/gradient/key_rank.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/chunks.h"
#include "kernels/gradient/key_band.h"
#include "kernels/gradient/key_histogram.h"

namespace dragonn::kernels::detail {
namespace {

constexpr int kBinBits = 11;
constexpr std::size_t kSampleSize = 4096;
/// The fewest values for which a sample saves more than it costs.
constexpr std::size_t kLeastSampled = 1u << 16;
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

/// Returns the keys of one bin, in the order of the ranked values, in `keys`, which may hold the ranked values
/// themselves.
template <class Ranked>
std::span<const std::uint32_t> collect_bin(std::span<const Ranked> ranked, const Bins& bins, std::uint32_t wanted,
                                           std::uint32_t* keys) {
  const Chunks pieces(ranked.size(), kPiece);
  std::array<std::size_t, kMaxChunks> counts{};
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

/// Returns the smallest and the largest key. There must be a value.
KeyRange range_of(std::span<const float> values) {
  const Chunks pieces(values.size(), kPiece);
  std::array<KeyRange, kMaxChunks> ranges;
  for_each_chunk(pieces, [&](std::size_t piece) {
    // Keys have 31 bits; signed numbers compare faster.
    std::int32_t low = std::numeric_limits<std::int32_t>::max(), high = 0;
    for (std::size_t i = pieces.begin(piece); i < pieces.end(piece); ++i) {
      const auto key = static_cast<std::int32_t>(magnitude_key(values[i]));
      low = std::min(low, key);
      high = std::max(high, key);
    }
    ranges[piece] = {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(high)};
  });
  KeyRange all = ranges[0];
  for (const KeyRange& range : std::span(ranges).first(pieces.count())) {
    all.low = std::min(all.low, range.low);
    all.high = std::max(all.high, range.high);
  }
  return all;
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

}  // namespace

std::uint32_t kth_largest_key(std::span<const float> values, std::size_t k, MagnitudeScratch& scratch) {
  scratch.keys.resize_discard(values.size());
  if (values.size() >= kLeastSampled) {
    const KeyRange range = sample_range(values, k);
    const Chunks pieces(values.size(), kPiece);
    std::array<std::size_t, kMaxChunks> above{}, inside{};
    for_each_chunk(pieces, [&](std::size_t piece) {
      const BandCounts counts = split_band_chunk(values.data(), pieces.begin(piece), pieces.end(piece), range,
                                                 scratch.keys.data() + pieces.begin(piece));
      above[piece] = counts.above;
      inside[piece] = counts.inside;
    });
    const std::span<const std::uint32_t> keys = join(pieces, inside, scratch.keys.data());
    const std::size_t larger = std::accumulate(above.begin(), above.end(), std::size_t{0});
    if (larger < k && k <= larger + keys.size()) return rank_in_range(keys, range, k - larger, scratch);
  }
  return rank_in_range(values, range_of(values), k, scratch);
}

}  // namespace dragonn::kernels::detail

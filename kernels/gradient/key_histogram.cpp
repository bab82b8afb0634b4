// SPDX-License-Identifier: MIT
#include "kernels/gradient/key_histogram.h"

#include <algorithm>

#include "kernels/chunks.h"

namespace dragonn::kernels::detail {
namespace {

constexpr std::size_t kMostPieces = 16;

/// Returns the pieces. Each has two histograms, so they are few: every histogram is as much work as it is long.
Chunks pieces_of(std::size_t size) {
  return {size, std::max<std::size_t>(1u << 16, (size + kMostPieces - 1) / kMostPieces)};
}

template <class Ranked>
std::span<const std::uint32_t> count(std::span<const Ranked> ranked, const Bins& bins, Buffer<std::uint32_t>& room) {
  const Chunks pieces = pieces_of(ranked.size());
  room.resize_discard(2 * pieces.count() * bins.count);
  for_each_chunk(pieces, [&](std::size_t piece) {
    // The histograms take turns: increments of one counter wait for each other, and neighbours are often alike.
    std::uint32_t* const even = room.data() + 2 * piece * bins.count;
    std::uint32_t* const odd = even + bins.count;
    std::fill_n(even, 2 * bins.count, 0);
    std::size_t i = pieces.begin(piece);
    for (; i + 1 < pieces.end(piece); i += 2) {
      ++even[bins.of(key_of(ranked[i]))];
      ++odd[bins.of(key_of(ranked[i + 1]))];
    }
    if (i < pieces.end(piece)) ++even[bins.of(key_of(ranked[i]))];
  });
  const std::span<std::uint32_t> total = room.host().first(bins.count);
  for (std::size_t other = 1; other < 2 * pieces.count(); ++other) {
    const std::uint32_t* const histogram = room.data() + other * bins.count;
    for (std::size_t bin = 0; bin < bins.count; ++bin) total[bin] += histogram[bin];
  }
  return total;
}

}  // namespace

std::span<const std::uint32_t> count_bins(std::span<const float> ranked, const Bins& bins,
                                          Buffer<std::uint32_t>& room) {
  return count(ranked, bins, room);
}

std::span<const std::uint32_t> count_bins(std::span<const std::uint32_t> ranked, const Bins& bins,
                                          Buffer<std::uint32_t>& room) {
  return count(ranked, bins, room);
}

std::size_t histogram_room(std::size_t size, std::size_t bins) {
  return 2 * std::min(kMostPieces, size / (1u << 16) + 1) * bins;
}

std::uint32_t find_bin(std::span<const std::uint32_t> counts, std::size_t* k) {
  std::size_t bin = counts.size();
  do {
    --bin;
    if (counts[bin] >= *k) break;
    *k -= counts[bin];
  } while (bin > 0);
  return static_cast<std::uint32_t>(bin);
}

}  // namespace dragonn::kernels::detail

// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gradient/tile_select.cpp"  // this file is compiled once per instruction set
#include <hwy/foreach_target.h>
// foreach_target.h must come first.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include <hwy/highway.h>

#include "kernels/gradient/gradient_pass_sweep.h"
#include "kernels/gradient/tile_select.h"
#include "kernels/partial_sums-inl.h"
#include "kernels/pieces.h"

#ifndef DRAGONN_TILE_BUFFERS  // once, not per instruction set
#define DRAGONN_TILE_BUFFERS
namespace dragonn::kernels::detail {

/// The work of one tile. Vectors may be read and written behind the last element.
struct TileBuffers {
  static constexpr std::size_t kSlack = 64;
  std::array<std::int32_t, kMaxTileSize + kSlack> keys;        ///< magnitudes, by their bits
  std::array<std::int32_t, kMaxTileSize + kSlack> candidates;  ///< places in the tile, ascending
  std::array<std::int32_t, kMaxTileSize + kSlack> ranked;      ///< keys in any order
};

/// Returns the k-th largest of the first `count` ranked keys. The k largest come first.
inline std::int32_t kth_largest(TileBuffers& buffers, std::size_t count, std::size_t k) {
  const auto begin = buffers.ranked.begin(), kth = begin + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(begin, kth, begin + static_cast<std::ptrdiff_t>(count), std::greater());
  return *kth;
}

}  // namespace dragonn::kernels::detail
#endif

HWY_BEFORE_NAMESPACE();
namespace dragonn::kernels::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Keys = hn::ScalableTag<std::int32_t>;

/// Loads the keys of a tile, and zeros behind them. A NaN counts as 0.
void load_keys(const float* tile, const TiledMatrix& matrix, std::int32_t* keys) {
  for (std::size_t row = 0; row < matrix.tile_rows; ++row) {
    for_each_element(matrix.tile_columns, [&](auto d, std::size_t column) HWY_ATTR {
      const hn::RebindToSigned<decltype(d)> di;
      const auto bits = hn::BitCast(di, hn::Abs(hn::LoadU(d, tile + row * matrix.columns + column)));
      const auto key = hn::IfThenZeroElse(hn::Gt(bits, hn::Set(di, 0x7f800000)), bits);
      hn::StoreU(key, di, keys + row * matrix.tile_columns + column);
    });
  }
  std::fill_n(keys + matrix.tile_size(), TileBuffers::kSlack, 0);
}

/// Returns a positive key that at least min(keep, non-zeros) of the keys reach: the keep-th largest of the maxima of
/// groups, since each of `keep` groups has such a key. Neighbours are in different groups, those in a column too, as
/// the number of groups is odd.
std::int32_t lower_bound(std::size_t size, std::size_t keep, TileBuffers& buffers) {
  const Keys d;
  const std::size_t groups = 2 * keep + 1;
  if (2 * groups > size) return 1;
  for (std::size_t group = 0; group < groups; group += hn::Lanes(d)) {
    auto largest = hn::Zero(d);
    for (std::size_t i = group; i < size; i += groups)
      largest = hn::Max(largest, hn::LoadU(d, buffers.keys.data() + i));
    hn::StoreU(largest, d, buffers.ranked.data() + group);
  }
  return std::max(1, kth_largest(buffers, groups, keep));
}

/// Writes the places of the keys that reach the bound. Returns how many there are.
std::size_t collect(std::size_t size, std::int32_t bound, TileBuffers& buffers) {
  const Keys d;
  std::size_t count = 0;
  for (std::size_t i = 0; i < size; i += hn::Lanes(d)) {
    const auto hits = hn::Gt(hn::LoadU(d, buffers.keys.data() + i), hn::Set(d, bound - 1));
    if (HWY_LIKELY(hn::AllFalse(d, hits))) continue;
    const auto places = hn::Iota(d, static_cast<std::int32_t>(i));
    hn::StoreU(hn::Compress(places, hits), d, buffers.candidates.data() + count);
    count += hn::CountTrue(d, hits);
  }
  return count;
}

/// Writes the places in the band of the entries of the tile that begins at `column`, ascending. Returns how many there
/// are.
std::size_t SelectTile(const float* band, std::size_t column, const TiledMatrix& matrix, TileBuffers& buffers,
                       std::uint32_t* kept) {
  load_keys(band + column, matrix, buffers.keys.data());
  const std::size_t size = matrix.tile_size();
  const std::size_t candidates = collect(size, lower_bound(size, matrix.keep, buffers), buffers);
  std::int32_t threshold = 0;
  std::size_t ties = 0;  // that are kept
  if (candidates > matrix.keep) {
    for (std::size_t i = 0; i < candidates; ++i) buffers.ranked[i] = buffers.keys[buffers.candidates[i]];
    threshold = kth_largest(buffers, candidates, matrix.keep);
    ties =
        static_cast<std::size_t>(std::count(buffers.ranked.begin(), buffers.ranked.begin() + matrix.keep, threshold));
  }
  const auto tile_columns = static_cast<std::uint32_t>(matrix.tile_columns);
  std::size_t count = 0;
  for (std::size_t i = 0; i < candidates; ++i) {
    const auto place = static_cast<std::uint32_t>(buffers.candidates[i]);
    const std::int32_t key = buffers.keys[place];
    if (key < threshold || (key == threshold && ties == 0)) continue;
    if (key == threshold) --ties;
    kept[count++] = static_cast<std::uint32_t>(place / tile_columns * matrix.columns + column + place % tile_columns);
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace dragonn::kernels::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dragonn::kernels {
namespace detail {
HWY_EXPORT(SelectTile);
}  // namespace detail

namespace {

/// The places for the entries of a band. Other bands write behind them.
struct Target {
  std::uint32_t* kept;
  std::uint32_t* indices;
  float* values;
};

/// Writes the entries of the band that begins at element `begin`, ascending, and returns how many there are. Tiles list
/// theirs one after the other; sorting by the row, in which tiles keep their order, makes them ascend.
std::size_t select_band(const float* values, std::size_t begin, const TiledMatrix& matrix, detail::TileBuffers& buffers,
                        const Target& target) {
  const float* const band = values + begin;
  std::size_t count = 0;
  for (std::size_t column = 0; column < matrix.columns; column += matrix.tile_columns)
    count += HWY_DYNAMIC_DISPATCH(detail::SelectTile)(band, column, matrix, buffers, target.kept + count);
  const auto columns = static_cast<std::uint32_t>(matrix.columns);
  std::array<std::size_t, kMaxTileSide + 1> places{};
  for (std::size_t i = 0; i < count; ++i) ++places[target.kept[i] / columns + 1];
  std::partial_sum(places.begin(), places.end(), places.begin());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t kept = target.kept[i];
    const std::size_t place = places[kept / columns]++;
    target.indices[place] = static_cast<std::uint32_t>(begin + kept);
    target.values[place] = band[kept];
  }
  return count;
}

void select_cpu(View<const float> values, std::span<const TiledMatrix> matrices, TileScratch& scratch,
                SparseVector& selected) {
  std::size_t most = 0;
  for (const TiledMatrix& matrix : matrices) most += matrix.kept();
  selected.resize_discard(most);
  scratch.kept.resize_discard(most);
  std::array<detail::HitRun, kMaxPieces> runs{};
  // A piece has the bands that begin in it, and the places of all that these can keep.
  const auto select_piece = [&](std::size_t piece, std::size_t begin, std::size_t end) {
    detail::TileBuffers buffers;
    detail::HitRun run;
    bool is_first = true;
    for_each_band(matrices, begin, end, [&](const TiledMatrix& matrix, std::size_t element, std::size_t kept) {
      if (is_first) run.begin = kept;
      is_first = false;
      const std::size_t next = run.begin + run.count;
      run.count +=
          select_band(values.data(), element, matrix, buffers,
                      {scratch.kept.data() + next, selected.indices.data() + next, selected.values.data() + next});
    });
    runs[piece] = run;
  };
  const std::size_t pieces = for_each_piece(values.size(), kMinPiece, select_piece);
  detail::join_runs(std::span(runs).first(pieces), selected);
}

bool prepare(View<const float> values, std::span<const TiledMatrix> matrices, TileScratch& scratch,
             SparseVector& selected) {
  check_same_device("select_in_tiles", values.device(), scratch.device());
  check_tiles("select_in_tiles", matrices, values.size());
  count_swept(values.size());
  if (values.empty()) selected.clear();
  return !values.empty();
}

}  // namespace

constinit decltype(select_in_tiles) select_in_tiles("select_in_tiles", select_cpu, prepare);

void TileScratch::reserve(std::size_t numel) {
  if (device().is_cpu()) {
    kept.resize_discard(numel);
  } else {
    masked.resize_discard(numel);
  }
}

}  // namespace dragonn::kernels
#endif  // HWY_ONCE

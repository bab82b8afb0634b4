// SPDX-License-Identifier: MIT
/// Column sums: sums over the rows of [rows, columns] data in two levels. Blocks sum pieces of rows, then pieces are
/// added. The order of additions depends on the shape alone.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/runtime.h"
#include "kernels/typed_view.h"

namespace dragonn::kernels::cuda {

/// The division of such data. A block has a piece of rows (blockIdx.x) and a tile of columns (blockIdx.y); its kThreads
/// threads are lanes x strands: a lane has `width` neighbouring columns, and a strand takes every strands-th row. There
/// are enough pieces to fill a GPU, and no more than one block can add up in little time.
struct ColumnCut {
  static constexpr std::size_t kMaxPieces = 1024;
  /// The blocks of cuts with several columns per lane, whose kernels read at the rate of memory: as many as run at once
  /// with three per multiprocessor of an H100 or H200, so that none begins when most have ended.
  static constexpr std::size_t kMaxBlocks = 384;
  static constexpr unsigned kMaxLanes = 32;

  /// @param lane_width divides the columns.
  ColumnCut(std::size_t all_rows, std::size_t all_columns, std::size_t lane_width = 1)
      : rows(all_rows), columns(all_columns), width(lane_width) {
    lay_out_lanes(kMaxLanes);
    const std::size_t least = rows_at_once(width) * (kThreads / lanes);
    const std::size_t most = width == 1 ? kMaxPieces : std::max<std::size_t>(1, kMaxBlocks / tiles);
    piece_rows = least * std::max<std::size_t>(1, (rows + least * most - 1) / (least * most));
    pieces = (rows + piece_rows - 1) / piece_rows;
  }
  /// Returns the least rows of a strand, which has a multiple of these: what it may have in registers at a time.
  static constexpr std::size_t rows_at_once(std::size_t lane_width) { return lane_width == 1 ? 16 : 4; }
  /// Returns the number of partial sums, [pieces, columns].
  std::size_t partials() const { return pieces * columns; }
  /// Returns the same pieces with a column per lane, for kernels that combine partial sums. A block has few lanes and
  /// many strands: what such a kernel waits for is one read after the other.
  ColumnCut by_column() const {
    ColumnCut cut = *this;
    cut.width = 1;
    cut.lay_out_lanes(4);
    return cut;
  }

  std::size_t rows, columns, width;
  std::size_t piece_rows = 1, pieces = 1;
  unsigned lanes = 1, tiles = 1;

 private:
  void lay_out_lanes(unsigned most) {
    const std::size_t needed = columns / width;
    lanes = 1;
    while (lanes < most && lanes < needed) lanes *= 2;
    tiles = static_cast<unsigned>((needed + lanes - 1) / lanes);
  }
};

/// Computes target [columns] = sums of `values` [rows, columns] over the rows. @param scratch cut.partials() floats.
void sum_columns(Context& here, const ColumnCut& cut, TypedView<const float> values, float* scratch, float* target);
/// Computes the second level alone: target [columns] = sums of the partial sums of all pieces, whatever the cut's
/// lanes.
void combine_columns(Context& here, const ColumnCut& cut, const float* partials, float* target);
/// Adds a bias row by row: values [rows, columns] += bias [columns].
void add_to_rows(Context& here, View<const float> bias, TypedView<float> values);

#ifdef DRAGONN_DEVICE_CODE

/// A thread's place in a cut.
struct ColumnPlace {
  __device__ explicit ColumnPlace(const ColumnCut& cut)
      : lanes(cut.lanes),
        lane(threadIdx.x % lanes),
        strand(threadIdx.x / lanes),
        strands(kThreads / lanes),
        tile(static_cast<std::size_t>(blockIdx.y) * lanes * cut.width),
        column(tile + lane * cut.width),
        begin(blockIdx.x * cut.piece_rows),
        row(begin + strand),
        end(min(cut.rows, begin + cut.piece_rows)) {}
  unsigned lanes, lane, strand, strands;
  std::size_t tile, column;     // the first of its block and of its lane
  std::size_t begin, row, end;  // of its piece, its own first row of it
};

namespace detail {

/// Adds up the strands of each warp. `sums` [warps][lanes * kWidth] gets the sums, which are there after it returns.
template <std::size_t kWidth, class T>
__device__ void sum_strands_of_warps(const ColumnPlace& place, const T (&mine)[kWidth],
                                     T (&sums)[kWarps][kWarp * kWidth]) {
  const unsigned warp = threadIdx.x / kWarp, in_warp = threadIdx.x % kWarp;
  __syncthreads();  // a call before this one may still read
#pragma unroll
  for (std::size_t k = 0; k < kWidth; ++k) {
    T sum = mine[k];
    for (unsigned step = kWarp / 2; step >= place.lanes; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
    if (in_warp < place.lanes) sums[warp][in_warp * kWidth + k] = sum;
  }
  __syncthreads();
}

}  // namespace detail

/// Returns the sum over the strands to all threads of a lane.
template <class T>
__device__ T sum_strands(const ColumnPlace& place, T value) {
  __shared__ T sums[kWarps][kWarp];
  const T mine[1] = {value};
  detail::sum_strands_of_warps<1>(place, mine, sums);
  T sum = 0;
  for (unsigned warp = 0; warp < kWarps; ++warp) sum += sums[warp][place.lane];
  return sum;
}

/// Returns the sum over the strands of the tile's column threadIdx.x to that thread, zero beyond the tile's last one.
/// `mine` are the values of the thread's columns.
template <class T, std::size_t kWidth>
__device__ T sum_strands_of_columns(const ColumnPlace& place, const T (&mine)[kWidth]) {
  __shared__ T sums[kWarps][kWarp * kWidth];
  detail::sum_strands_of_warps<kWidth>(place, mine, sums);
  T sum = 0;
  if (threadIdx.x < place.lanes * kWidth)
    for (unsigned warp = 0; warp < kWarps; ++warp) sum += sums[warp][threadIdx.x];
  return sum;
}

/// Returns the sum over all pieces of term(piece, value), in double, to all threads of a lane; `value` is the column's
/// in `partials`. Eight reads of a thread are under way at once. The launch has one block per tile.
template <class Term>
__device__ double sum_pieces(const ColumnPlace& place, const ColumnCut& cut, const float* partials, const Term& term) {
  constexpr unsigned kReads = 8;
  double sum = 0;
  for (std::size_t first = place.strand; place.column < cut.columns && first < cut.pieces;
       first += kReads * place.strands) {
    float values[kReads];
#pragma unroll
    for (unsigned i = 0; i < kReads; ++i) {
      const std::size_t piece = first + i * place.strands;
      values[i] = piece < cut.pieces ? partials[piece * cut.columns + place.column] : 0.0f;
    }
#pragma unroll
    for (unsigned i = 0; i < kReads; ++i) {
      const std::size_t piece = first + i * place.strands;
      if (piece < cut.pieces) sum += term(piece, values[i]);
    }
  }
  return sum_strands(place, sum);
}

/// Returns the sum of a column's partial sums.
__device__ inline double sum_pieces(const ColumnPlace& place, const ColumnCut& cut, const float* partials) {
  return sum_pieces(place, cut, partials, [](std::size_t, float value) { return value; });
}

inline dim3 blocks_of(const ColumnCut& cut) {
  return {static_cast<unsigned>(cut.pieces), cut.tiles};
}
/// Returns the grid of kernels that combine the partial sums.
inline dim3 tiles_of(const ColumnCut& cut) {
  return {1, cut.tiles};
}

#endif

}  // namespace dragonn::kernels::cuda

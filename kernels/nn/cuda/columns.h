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
  static constexpr std::size_t kMaxPieces = 512;

  /// @param lane_width divides the columns.
  ColumnCut(std::size_t all_rows, std::size_t all_columns, std::size_t lane_width = 1)
      : rows(all_rows), columns(all_columns), width(lane_width) {
    lay_out_lanes();
    const std::size_t min = rows_at_once(width) * (kThreads / lanes);
    piece_rows = min * std::max<std::size_t>(1, (rows + min * kMaxPieces - 1) / (min * kMaxPieces));
    pieces = (rows + piece_rows - 1) / piece_rows;
  }
  /// Returns the least rows of a strand, which has a multiple of these: what it may have in registers at a time.
  static constexpr std::size_t rows_at_once(std::size_t lane_width) { return lane_width == 1 ? 16 : 4; }
  /// Returns the number of partial sums, [pieces, columns].
  std::size_t partials() const { return pieces * columns; }
  /// Returns the same pieces with a column per lane, for kernels that combine partial sums.
  ColumnCut by_column() const {
    ColumnCut cut = *this;
    cut.width = 1;
    cut.lay_out_lanes();
    return cut;
  }

  std::size_t rows, columns, width;
  std::size_t piece_rows = 1, pieces = 1;
  unsigned lanes = 1, tiles = 1;

 private:
  void lay_out_lanes() {
    const std::size_t needed = columns / width;
    lanes = 1;
    while (lanes < 32 && lanes < needed) lanes *= 2;
    tiles = static_cast<unsigned>((needed + lanes - 1) / lanes);
  }
};

/// Computes target [columns] = sums of `values` [rows, columns] over the rows. @param scratch cut.partials() floats.
void sum_columns(Context& here, const ColumnCut& cut, TypedView<const float> values, float* scratch, float* target);
/// Computes the second level alone: target [columns] = sums of the partial sums of all pieces.
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
        column((static_cast<std::size_t>(blockIdx.y) * lanes + lane) * cut.width),
        row(blockIdx.x * cut.piece_rows + strand),
        end(min(cut.rows, (blockIdx.x + std::size_t{1}) * cut.piece_rows)) {}
  unsigned lanes, lane, strand, strands;
  std::size_t column;    // the first of its lane
  std::size_t row, end;  // of its piece
};

/// Returns the sum over the strands to all threads of a lane.
template <class T>
__device__ T sum_strands(const ColumnPlace& place, T value) {
  __shared__ T values[kThreads];
  __syncthreads();  // a call before this one may still read
  values[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = place.strands / 2; half > 0; half /= 2) {
    if (place.strand < half) values[threadIdx.x] += values[threadIdx.x + half * place.lanes];
    __syncthreads();
  }
  return values[place.lane];
}

/// Returns the sum of a column's partial sums, in double, to all threads of a lane. The launch has one block per tile.
__device__ inline double sum_pieces(const ColumnPlace& place, const ColumnCut& cut, const float* partials) {
  double sum = 0;
  if (place.column < cut.columns)
    for (std::size_t piece = place.strand; piece < cut.pieces; piece += place.strands)
      sum += partials[piece * cut.columns + place.column];
  return sum_strands(place, sum);
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

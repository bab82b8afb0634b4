// SPDX-License-Identifier: MIT
// Selection within tiles: a block selects a tile, whose magnitudes its threads keep in registers. It finds the smallest
// one that stays bit by bit, with a count over the tile for each bit, until exactly the wanted number reaches it; and
// if ties are too many, the last of them that stays in the same way. What stays is written to a copy of the vector,
// whose non-zeros are then selected as with any threshold, in the order of indices. 8 bytes per element, beside those
// of that selection.
#include "kernels/cuda/runtime.h"
#include "kernels/gradient/cuda/look_back.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"
#include "kernels/gradient/tile_select.h"

namespace dragonn::kernels::cuda {
namespace {

/// A tile of a block, of which a thread has every kThreads-th element, kKeys of them.
template <unsigned kKeys>
class Tile {
 public:
  __device__ Tile(const TiledMatrix& matrix, std::size_t number)
      : columns_(static_cast<unsigned>(matrix.tile_columns)),
        size_(static_cast<unsigned>(matrix.tile_size())),
        stride_(matrix.columns) {
    const std::size_t across = matrix.tiles_per_band();
    corner_ = number / across * matrix.band_size() + number % across * matrix.tile_columns;
  }

  __device__ void load(const float* values) {
    visit([&](unsigned i, std::size_t at) { values_[i] = values[at]; });
  }
  /// Writes the elements that stay, and zeros for the others.
  template <class Stays>
  __device__ void store(const Stays& stays, float* masked) {
    visit(
        [&](unsigned i, std::size_t at) { masked[at] = stays(magnitude_key(values_[i]), place(i)) ? values_[i] : 0; });
  }

  /// Returns the number of elements for which holds(key, place). All threads of the block must call it. An element
  /// beyond the tile has the key 0.
  template <class Predicate>
  __device__ unsigned count(const Predicate& holds) {
    __shared__ unsigned sums[2][kWarps];
    unsigned mine = 0;
#pragma unroll
    for (unsigned i = 0; i < kKeys; ++i) mine += holds(magnitude_key(values_[i]), place(i)) ? 1 : 0;
    mine = __reduce_add_sync(kAllLanes, mine);
    turn_ ^= 1u;  // others may still read the sums of the call before
    if (lane_id() == 0) sums[turn_][warp_id()] = mine;
    __syncthreads();
    unsigned total = 0;
    for (const unsigned sum : sums[turn_]) total += sum;
    return total;
  }

 private:
  __device__ static unsigned place(unsigned i) {
    return i * kThreads + threadIdx.x;
  }
  /// Calls see(i, at) for all elements of this thread: the i-th one lies at `at`. One division serves all of them.
  template <class See>
  __device__ void visit(const See& see) const {
    const unsigned rows = kThreads / columns_, columns = kThreads % columns_;  // from one element to the next
    unsigned row = threadIdx.x / columns_, column = threadIdx.x % columns_;
#pragma unroll
    for (unsigned i = 0; i < kKeys; ++i) {
      if (place(i) < size_) see(i, corner_ + row * stride_ + column);
      row += rows;
      column += columns;
      if (column < columns_) continue;
      column -= columns_;
      ++row;
    }
  }

  float values_[kKeys] = {};
  unsigned columns_, size_, turn_ = 0;
  std::size_t corner_, stride_;
};

template <unsigned kKeys>
__global__ void __launch_bounds__(kThreads, kKeys > 16 ? 1 : 3)
    mask_kernel(const float* values, TiledMatrix matrix, float* masked) {
  Tile<kKeys> tile(matrix, blockIdx.x);
  tile.load(values);
  const auto keep = static_cast<unsigned>(matrix.keep);
  std::uint32_t threshold = 0;  // the largest key found so far that at least `keep` elements reach
  unsigned reaching = 0;        // how many do
#pragma unroll 1
  for (std::uint32_t bit = 1u << 30; bit > 0 && reaching != keep; bit >>= 1) {
    const std::uint32_t larger = threshold | bit;
    const unsigned count = tile.count([&](std::uint32_t key, unsigned) { return key >= larger; });
    if (count < keep) continue;
    threshold = larger;
    reaching = count;
  }
  unsigned end = static_cast<unsigned>(kMaxTileSize);  // the place of the last tie that stays
  if (threshold > 0 && reaching > keep) {
    const unsigned ties = keep - tile.count([&](std::uint32_t key, unsigned) { return key > threshold; });
    end = 0;  // the largest place before which there are fewer than `ties` ties
#pragma unroll 1
    for (unsigned bit = static_cast<unsigned>(kMaxTileSize) / 2; bit > 0; bit >>= 1) {
      const unsigned later = end | bit;
      if (tile.count([&](std::uint32_t key, unsigned place) { return place < later && key == threshold; }) < ties)
        end = later;
    }
  }
  tile.store([&](std::uint32_t key,
                 unsigned place) { return key > threshold || (key == threshold && key > 0 && place <= end); },
             masked);
}

void select(View<const float> values, std::span<const TiledMatrix> matrices, TileScratch& scratch,
            SparseVector& selected) {
  const Context& here = context(values.device());
  scratch.masked.resize_discard(values.size());
  std::size_t offset = 0;
  for (const TiledMatrix& matrix : matrices) {
    const std::size_t tiles = matrix.tiles();
    // Tiles of 64 x 64 are usual.
    constexpr unsigned kUsualKeys = 16, kMaxKeys = static_cast<unsigned>(kMaxTileSize) / kThreads;
    const auto kernel = matrix.tile_size() <= kUsualKeys * kThreads ? mask_kernel<kUsualKeys> : mask_kernel<kMaxKeys>;
    if (tiles > 0)
      launch(here, "select_in_tiles", static_cast<unsigned>(tiles), kThreads, kernel, values.data() + offset, matrix,
             scratch.masked.data() + offset);
    offset += matrix.size();
  }
  select_threshold(std::as_const(scratch.masked).view(), 0, selected);
}

[[maybe_unused]] const bool registered = kernels::select_in_tiles.add(DeviceType::kCuda, select);

}  // namespace
}  // namespace dragonn::kernels::cuda

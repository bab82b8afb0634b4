// SPDX-License-Identifier: MIT
// Selection within tiles: a block selects a tile. It finds the smallest magnitude that stays bit by bit, and then the
// last of its ties that does: each bit takes a count over the tile, which stays in the first-level cache. What stays is
// written to a copy of the vector, whose non-zeros are then selected as with any threshold, in the order of indices.
#include "kernels/cuda/runtime.h"
#include "kernels/gradient/magnitude.h"
#include "kernels/gradient/select.h"
#include "kernels/gradient/tile_select.h"

namespace dragonn::kernels::cuda {
namespace {

/// A tile, element by element.
struct Tile {
  const float* first;
  std::size_t stride;
  unsigned columns, size;

  __device__ std::size_t offset(unsigned place) const { return place / columns * stride + place % columns; }
  __device__ std::uint32_t key(unsigned place) const { return magnitude_key(first[offset(place)]); }

  /// Returns the number of places for which the predicate holds. All threads of the block must call it.
  template <class Predicate>
  __device__ unsigned count(const Predicate& holds) const {
    unsigned total = 0;
    for (unsigned begin = 0; begin < size; begin += kThreads) {
      const unsigned place = begin + threadIdx.x;
      total += static_cast<unsigned>(__syncthreads_count(place < size && holds(place)));
    }
    return total;
  }
};

__global__ void __launch_bounds__(kThreads) mask_kernel(const float* values, TiledMatrix matrix, float* masked) {
  const std::size_t across = matrix.tiles_per_band(), number = blockIdx.x;
  const std::size_t corner = number / across * matrix.band_size() + number % across * matrix.tile_columns;
  const Tile tile{values + corner, matrix.columns, static_cast<unsigned>(matrix.tile_columns),
                  static_cast<unsigned>(matrix.tile_size())};
  const auto keep = static_cast<unsigned>(matrix.keep);
  std::uint32_t threshold = 0;  // the largest key that at least `keep` elements reach
  for (std::uint32_t bit = 1u << 30; bit > 0; bit >>= 1) {
    const std::uint32_t larger = threshold | bit;
    if (tile.count([&](unsigned place) { return tile.key(place) >= larger; }) >= keep) threshold = larger;
  }
  const unsigned ties = keep - tile.count([&](unsigned place) { return tile.key(place) > threshold; });
  unsigned end = 0;  // the largest place before which there are fewer than `ties` ties: that of the last that stays
  for (unsigned bit = static_cast<unsigned>(kMaxTileSize) / 2; bit > 0; bit >>= 1) {
    const unsigned later = end | bit;
    if (tile.count([&](unsigned place) { return place < later && tile.key(place) == threshold; }) < ties) end = later;
  }
  for (unsigned place = threadIdx.x; place < tile.size; place += kThreads) {
    const std::uint32_t key = tile.key(place);
    const bool stays = key > threshold || (key == threshold && key > 0 && place <= end);
    masked[corner + tile.offset(place)] = stays ? tile.first[tile.offset(place)] : 0;
  }
}

void select(View<const float> values, std::span<const TiledMatrix> matrices, TileScratch& scratch,
            SparseVector& selected) {
  const Context& here = context(values.device());
  scratch.masked.resize_discard(values.size());
  std::size_t offset = 0;
  for (const TiledMatrix& matrix : matrices) {
    const std::size_t tiles = matrix.bands() * matrix.tiles_per_band();
    if (tiles > 0)
      launch(here, "select_in_tiles", static_cast<unsigned>(tiles), kThreads, mask_kernel, values.data() + offset,
             matrix, scratch.masked.data() + offset);
    offset += matrix.size();
  }
  select_threshold(std::as_const(scratch.masked).view(), 0, selected);
}

[[maybe_unused]] const bool registered = kernels::select_in_tiles.add(DeviceType::kCuda, select);

}  // namespace
}  // namespace dragonn::kernels::cuda

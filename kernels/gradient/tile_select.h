// SPDX-License-Identifier: MIT
/// Selection within the tiles of matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "core/sparse_vector.h"
#include "core/view.h"
#include "kernels/gradient/tiles.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// Memory of the selection, reused from call to call.
struct TileScratch {
  TileScratch() = default;
  /// Makes memory for vectors on `device`.
  explicit TileScratch(const Device& device) : kept(0, device), masked(0, device) {}

  const Device& device() const { return kept.device(); }

  Buffer<std::uint32_t> kept;  ///< used on the CPU: places of entries, tile by tile
  Buffer<float> masked;        ///< used on other devices: [n], the entries and zeros elsewhere

  /// Makes room for vectors of up to `numel` elements, so that no later call allocates.
  void reserve(std::size_t numel);
};

/// Selects the `keep` non-zero values of largest magnitude of each tile, or all where there are fewer; ties go to the
/// lower index; a NaN is never selected. The matrices lie one after the other in `values` ([n] float32). `selected` is
/// overwritten, ascending. The result is the same on every device.
///
/// On the CPU one pass, 4 bytes per element, tile by tile in the first-level cache: the largest magnitudes of more than
/// 2 keep groups of elements give a bound that at least `keep` elements reach, and seldom many more; these are ranked.
/// Tiles that keep more than a quarter are ranked as a whole, which takes some ten times as long.
/// On a GPU a block selects a tile, into a copy of the vector that a second pass reads: 12 bytes per element.
/// @throws DeviceError for memory of several devices, or of one without a row.
extern Operation<void(View<const float> values, std::span<const TiledMatrix> matrices, TileScratch& scratch,
                      SparseVector& selected)>
    select_in_tiles;

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
/// Tiles of a bucket's tensors: the parts in which `chunktopk` selects and the DCT transforms.
#pragma once

#include <cstddef>
#include <span>

#include "core/settings.h"
#include "core/shape.h"
#include "kernels/gradient/tiles.h"

namespace dragonn::compress {

/// Returns the setting `chunk`, the largest side of a tile.
SettingSpec chunk_spec();
/// Returns its value, or its default where settings lack it.
std::size_t chunk_of(const Settings& settings);

/// Cuts a tensor into tiles whose sides are the largest divisors up to `chunk` of a matrix's rows and columns; the rows
/// are its first axis, and the columns the rest. A vector is cut into pieces, each of which is a row.
kernels::TiledMatrix cut_into_tiles(const Shape& tensor, std::size_t chunk);

/// Calls body(tensor) for the tensors of a bucket of `numel` elements: one vector if there are none.
template <class Body>
void for_each_tensor(std::size_t numel, std::span<const Shape> tensors, const Body& body) {
  const Shape vector{static_cast<std::int64_t>(numel)};
  for (const Shape& tensor : tensors.empty() ? std::span(&vector, 1) : tensors) body(tensor);
}

}  // namespace dragonn::compress

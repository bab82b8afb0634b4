// SPDX-License-Identifier: MIT
/// A memory in the basis of the discrete cosine transform.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "compress/memory.h"
#include "core/shape.h"

namespace dragonn::compress {

/// Lets a memory of a bucket work on the orthonormal DCT-II of its gradient's tiles, C X C^T of each (compress/tiles.h;
/// pieces of a vector are transformed in one dimension). acc, residual and what is selected, exchanged and settled stay
/// in that basis, in which nothing else changes: the residual weighs the same, and only sums are transformed back. A
/// saved state names the basis, so that no other one takes it over. Every compensate is one transform, every sum
/// another. Source: DeMo, arXiv:2411.19870, which transforms the residual back in every step, to the same values up to
/// rounding.
/// @param tensors of the bucket, one after the other; empty: one vector.  @param chunk the largest side of a tile.
std::unique_ptr<Memory> in_dct_basis(std::unique_ptr<Memory> memory, std::size_t numel, std::span<const Shape> tensors,
                                     std::size_t chunk, const Device& device);

/// The floats per element that this takes besides the memory's own.
inline constexpr std::size_t kDctFloatsPerElement = 2;

}  // namespace dragonn::compress

// SPDX-License-Identifier: MIT
/// The discrete cosine transform of tiles.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "core/view.h"
#include "kernels/gradient/tiles.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// Keeps the orthonormal bases of the DCT-II for the sides of some tiles: of n points the matrix
///
///     C[k, i] = sqrt((k == 0 ? 1 : 2) / n) cos(pi (2 i + 1) k / (2 n)),
///
/// rounded once from double, and its transpose, 8 n^2 bytes. Source: Ahmed, Natarajan and Rao, IEEE Transactions on
/// Computers C-23 (1974).
class CosineBases {
 public:
  /// Makes the bases for the tiles of these matrices, on `device`.
  CosineBases(std::span<const TiledMatrix> matrices, const Device& device);

  const Device& device() const { return bases_.device(); }
  /// Returns C or its transpose, [points, points], on the device.
  const float* of(std::size_t points, bool transposed) const {
    return bases_.data() + begins_[points] + (transposed ? points * points : 0);
  }

 private:
  Buffer<float> bases_;
  std::array<std::uint32_t, kMaxTileSide + 1> begins_{};  // by the number of points
};

enum class TransformDirection { kForward, kInverse };

/// Transforms each tile X of a vector, [n] float32: C X C^T, or with the inverse C^T X C, with the bases of its height
/// and width; so a piece of a vector, a tile of one row, is transformed along its columns alone. The matrices lie one
/// after the other in `values`; `transformed` is other memory, [n], overwritten. The two directions are inverse to each
/// other up to rounding. Products and sums are rounded one by one, in one order: the bits are the same on every device,
/// instruction set and number of threads. 8 bytes and 2 (height + width) operations per element.
/// @param bases of these tiles. @throws DeviceError for memory of several devices, or of one without a row.
extern Operation<void(View<const float> values, std::span<const TiledMatrix> matrices, const CosineBases& bases,
                      TransformDirection direction, View<float> transformed)>
    transform_tiles;

}  // namespace dragonn::kernels

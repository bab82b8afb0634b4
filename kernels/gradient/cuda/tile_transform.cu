// SPDX-License-Identifier: MIT
// The transform of tiles: a block computes a strip of columns of a transformed tile. Its threads multiply the tile by
// the strip of the right factor, into shared memory, and the left factor by that. Each element is summed in order, as
// on the CPU. A tile is read once for each of its strips, from the caches but for the first time.
#include "kernels/cuda/runtime.h"
#include "kernels/gradient/tile_transform.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr unsigned kStrip = 16;  // columns

__global__ void __launch_bounds__(kThreads) transform_kernel(const float* values, TiledMatrix matrix, const float* left,
                                                             const float* right, float* transformed) {
  __shared__ float product[kMaxTileSide][kStrip];
  const auto rows = static_cast<unsigned>(matrix.tile_rows), columns = static_cast<unsigned>(matrix.tile_columns);
  const unsigned strips = (columns + kStrip - 1) / kStrip;
  const std::size_t tile = blockIdx.x / strips, across = matrix.tiles_per_band();
  const std::size_t corner = tile / across * matrix.band_size() + tile % across * columns;
  const unsigned first = blockIdx.x % strips * kStrip;
  const unsigned within = threadIdx.x % kStrip, column = first + within;
  if (column < columns) {
    for (unsigned row = threadIdx.x / kStrip; row < rows; row += kThreads / kStrip) {
      const float* const x = values + corner + row * matrix.columns;
      float sum = 0;
      for (unsigned i = 0; i < columns; ++i) sum = sum + x[i] * right[i * columns + column];
      product[row][within] = sum;
    }
  }
  __syncthreads();
  if (column >= columns) return;
  for (unsigned row = threadIdx.x / kStrip; row < rows; row += kThreads / kStrip) {
    float sum = 0;
    for (unsigned i = 0; i < rows; ++i) sum = sum + left[row * rows + i] * product[i][within];
    transformed[corner + row * matrix.columns + column] = sum;
  }
}

void transform(View<const float> values, std::span<const TiledMatrix> matrices, const CosineBases& bases,
               TransformDirection direction, View<float> transformed) {
  const Context& here = context(values.device());
  const bool is_forward = direction == TransformDirection::kForward;
  std::size_t offset = 0;
  for (const TiledMatrix& matrix : matrices) {
    const std::size_t blocks = matrix.tiles() * ((matrix.tile_columns + kStrip - 1) / kStrip);
    if (blocks > 0)
      launch(here, "transform_tiles", static_cast<unsigned>(blocks), kThreads, transform_kernel, values.data() + offset,
             matrix, bases.of(matrix.tile_rows, !is_forward), bases.of(matrix.tile_columns, is_forward),
             transformed.data() + offset);
    offset += matrix.size();
  }
}

[[maybe_unused]] const bool registered = kernels::transform_tiles.add(DeviceType::kCuda, transform);

}  // namespace
}  // namespace dragonn::kernels::cuda

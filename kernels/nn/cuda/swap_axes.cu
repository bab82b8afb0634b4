// SPDX-License-Identifier: MIT
#include "kernels/cuda/runtime.h"
#include "kernels/nn/swap_axes.h"

namespace dragonn::kernels::cuda {
namespace {

constexpr unsigned kTile = 32;
constexpr unsigned kTileRows = 8;  // rows of a tile that a block moves at a time

/// Transposes by tiles in shared memory, so that both sides are read and written along rows. A tile has a column more
/// than it needs, which puts a column's elements into different banks. Tiles are numbered along blockIdx.x, then
/// matrices.
__global__ void transpose_kernel(const float* input, std::size_t rows, std::size_t columns, float* output) {
  __shared__ float tile[kTile][kTile + 1];
  const std::size_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  const std::size_t matrix = blockIdx.x / (across * down), place = blockIdx.x % (across * down);
  const std::size_t left = place % across * kTile, top = place / across * kTile, begin = matrix * rows * columns;
  for (unsigned r = threadIdx.y; r < kTile; r += kTileRows)
    if (top + r < rows && left + threadIdx.x < columns)
      tile[r][threadIdx.x] = input[begin + (top + r) * columns + left + threadIdx.x];
  __syncthreads();
  for (unsigned c = threadIdx.y; c < kTile; c += kTileRows)
    if (left + c < columns && top + threadIdx.x < rows)
      output[begin + (left + c) * rows + top + threadIdx.x] = tile[threadIdx.x][c];
}

void swap(View<const float> input, std::size_t rows, std::size_t columns, View<float> output) {
  if (input.empty()) return;
  const Context& here = context(output.device());
  const std::size_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  const auto blocks = static_cast<unsigned>(across * down * (input.size() / (rows * columns)));
  launch(here, "swap_axes", blocks, dim3(kTile, kTileRows), transpose_kernel, input.data(), rows, columns,
         output.data());
}

[[maybe_unused]] const bool registered = swap_axes_table().add(DeviceType::kCuda, swap);

}  // namespace
}  // namespace dragonn::kernels::cuda

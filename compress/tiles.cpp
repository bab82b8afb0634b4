// SPDX-License-Identifier: MIT
#include "compress/tiles.h"

#include <algorithm>

namespace dragonn::compress {
namespace {

constexpr const char* kChunk = "chunk";
constexpr std::int64_t kUsualChunk = 64;

/// Returns the largest divisor that is at most `most`; 1 for 0.
std::size_t largest_divisor(std::size_t extent, std::size_t most) {
  std::size_t divisor = std::clamp<std::size_t>(extent, 1, most);
  while (extent % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

SettingSpec chunk_spec() {
  return SettingSpec::integer(kChunk, kUsualChunk,
                              "largest side of a tile; its sides are the largest divisors of a matrix's rows and "
                              "columns up to this",
                              1, static_cast<double>(kernels::kMaxTileSide));
}

std::size_t chunk_of(const Settings& settings) {
  return static_cast<std::size_t>(settings.contains(kChunk) ? settings.integer(kChunk) : kUsualChunk);
}

kernels::TiledMatrix cut_into_tiles(const Shape& tensor, std::size_t chunk) {
  kernels::TiledMatrix matrix;
  if (tensor.rank() < 2) {
    matrix.columns = largest_divisor(tensor.size(), chunk);
    matrix.rows = tensor.size() / matrix.columns;
  } else {
    matrix.rows = static_cast<std::size_t>(tensor[0]);
    matrix.columns = tensor.size() / matrix.rows;
    matrix.tile_rows = largest_divisor(matrix.rows, chunk);
  }
  matrix.tile_columns = largest_divisor(matrix.columns, chunk);
  return matrix;
}

}  // namespace dragonn::compress

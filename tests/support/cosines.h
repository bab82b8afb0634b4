// SPDX-License-Identifier: MIT
/// The discrete cosine transform in float64, by definition.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

namespace dragonn::test {

/// Returns element [k, i] of the orthonormal DCT-II of n points.
inline double cosine(std::size_t n, std::size_t k, std::size_t i) {
  const double angle =
      std::numbers::pi / static_cast<double>(n) * (static_cast<double>(i) + 0.5) * static_cast<double>(k);
  return std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n)) * std::cos(angle);
}

/// Returns C X C^T of each tile of a matrix [rows, columns], or C^T X C.
inline std::vector<double> transformed_tiles(const std::vector<double>& values, std::size_t rows, std::size_t columns,
                                             std::size_t tile_rows, std::size_t tile_columns, bool inverse) {
  const auto factor = [&](std::size_t n, std::size_t to, std::size_t from) {
    return inverse ? cosine(n, from, to) : cosine(n, to, from);
  };
  std::vector<double> result(values.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const std::size_t top = row - row % tile_rows, left = column - column % tile_columns;
      double sum = 0;
      for (std::size_t i = 0; i < tile_rows; ++i) {
        for (std::size_t j = 0; j < tile_columns; ++j)
          sum += factor(tile_rows, row - top, i) * factor(tile_columns, column - left, j) *
                 values[(top + i) * columns + left + j];
      }
      result[row * columns + column] = sum;
    }
  }
  return result;
}

}  // namespace dragonn::test

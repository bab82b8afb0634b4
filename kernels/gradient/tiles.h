// SPDX-License-Identifier: MIT
/// Tiles of matrices that lie one after the other in a vector.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "core/error.h"

namespace dragonn::kernels {

/// The longest side of a tile, and the elements of the largest tile.
inline constexpr std::size_t kMaxTileSide = 128;
inline constexpr std::size_t kMaxTileSize = kMaxTileSide * kMaxTileSide;

/// A matrix, rows one after the other, and its tiles. A band is a row of tiles: a slice of the matrix.
struct TiledMatrix {
  std::size_t rows = 0, columns = 0;
  std::size_t tile_rows = 1, tile_columns = 1;  ///< at most kMaxTileSide; they divide rows and columns
  std::size_t keep = 1;                         ///< entries that a selection keeps of each tile, 1 to tile_size()

  constexpr std::size_t size() const { return rows * columns; }
  constexpr std::size_t tile_size() const { return tile_rows * tile_columns; }
  constexpr std::size_t band_size() const { return tile_rows * columns; }
  constexpr std::size_t bands() const { return rows / tile_rows; }
  constexpr std::size_t tiles_per_band() const { return columns / tile_columns; }
  constexpr std::size_t tiles() const { return bands() * tiles_per_band(); }
  constexpr std::size_t kept_per_band() const { return tiles_per_band() * keep; }
  /// Returns the entries that all tiles keep, unless they have too few that are not zero.
  constexpr std::size_t kept() const { return bands() * kept_per_band(); }
};

/// Checks that matrices with proper tiles make up a vector of `size` elements. @throws Error otherwise.
inline void check_tiles(std::string_view operation, std::span<const TiledMatrix> matrices, std::size_t size) {
  std::size_t covered = 0;
  for (const TiledMatrix& matrix : matrices) {
    DRAGONN_CHECK(matrix.tile_rows <= kMaxTileSide && matrix.tile_columns <= kMaxTileSide &&
                      matrix.rows % matrix.tile_rows == 0 && matrix.columns % matrix.tile_columns == 0 &&
                      matrix.keep <= matrix.tile_size(),
                  "{}: a matrix of {} x {} in tiles of {} x {} that keep {}", operation, matrix.rows, matrix.columns,
                  matrix.tile_rows, matrix.tile_columns, matrix.keep);
    covered += matrix.size();
  }
  DRAGONN_CHECK(covered == size, "{}: matrices of {} elements in a vector of {}", operation, covered, size);
}

/// Calls body(matrix, element, kept) for the bands that begin within [begin, end), in their order: the band begins at
/// `element` of the vector, and all bands before it keep `kept` entries.
template <class Body>
void for_each_band(std::span<const TiledMatrix> matrices, std::size_t begin, std::size_t end, const Body& body) {
  std::size_t offset = 0, kept = 0;
  for (const TiledMatrix& matrix : matrices) {
    const auto bands_before = [&](std::size_t element) {
      const std::size_t size = matrix.band_size();
      return element <= offset ? 0 : std::min(matrix.bands(), (element - offset + size - 1) / size);
    };
    for (std::size_t band = bands_before(begin); band < bands_before(end); ++band)
      body(matrix, offset + band * matrix.band_size(), kept + band * matrix.kept_per_band());
    offset += matrix.size();
    kept += matrix.kept();
  }
}

}  // namespace dragonn::kernels

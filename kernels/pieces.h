// SPDX-License-Identifier: MIT
/// Pieces: work on pieces of a range, on OpenMP threads that the caller need not know of.
#pragma once

#include <algorithm>
#include <cstddef>

namespace dragonn::kernels {

/// The largest number of pieces of a range.
inline constexpr std::size_t kMostPieces = 256;

/// The floats of the shortest piece of a pass that does little per element: fewer do not repay waking a thread.
inline constexpr std::size_t kLeastPiece = 16384;

/// Returns the fewest rows of `columns` floats that make a piece of such a pass.
constexpr std::size_t rows_per_piece(std::size_t columns) {
  return std::max<std::size_t>(1, kLeastPiece / std::max<std::size_t>(1, columns));
}

namespace detail {
using PieceFunction = void (*)(const void* body, std::size_t piece, std::size_t begin, std::size_t end);
std::size_t run_pieces(std::size_t size, std::size_t minimum, PieceFunction function, const void* body);
}  // namespace detail

/// Calls body(piece, begin, end) for pieces of [0, size), in any order. They have at least `minimum` elements and
/// depend on the two numbers alone. Returns how many there are. `body` must not throw.
template <class Body>
std::size_t for_each_piece(std::size_t size, std::size_t minimum, const Body& body) {
  const auto call = [](const void* erased, std::size_t piece, std::size_t begin, std::size_t end) {
    (*static_cast<const Body*>(erased))(piece, begin, end);
  };
  return detail::run_pieces(size, minimum, call, &body);
}

}  // namespace dragonn::kernels

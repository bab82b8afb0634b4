// SPDX-License-Identifier: MIT
/// Pieces: work on pieces of a range, on OpenMP threads that the caller need not know of.
#pragma once

#include <algorithm>
#include <cstddef>

namespace dragonn::kernels {

/// The largest number of pieces of a range: results per piece fit on the stack.
inline constexpr std::size_t kMaxPieces = 256;

/// The floats of the shortest piece of a pass that does little per element: fewer do not repay waking a thread.
inline constexpr std::size_t kMinPiece = 16384;

/// Returns the fewest rows of `columns` floats that make a piece of such a pass.
constexpr std::size_t rows_per_piece(std::size_t columns) {
  return std::max<std::size_t>(1, kMinPiece / std::max<std::size_t>(1, columns));
}

namespace detail {

/// Cuts [0, size) into pieces of equal length (the last may be shorter). The cut depends on the size alone, so values
/// that are computed per piece and combined in order do not depend on the number of threads.
class Chunks {
 public:
  /// Makes pieces of at least `minimum` elements and, if there is more than one, of a multiple of `alignment`.
  Chunks(std::size_t size, std::size_t minimum, std::size_t alignment = 1) : size_(size) {
    const std::size_t even = (size + kMaxPieces - 1) / kMaxPieces;
    length_ = (std::max(even, minimum) + alignment - 1) / alignment * alignment;
  }

  std::size_t count() const { return (size_ + length_ - 1) / length_; }
  std::size_t begin(std::size_t chunk) const { return chunk * length_; }
  std::size_t end(std::size_t chunk) const { return std::min(size_, (chunk + 1) * length_); }

 private:
  std::size_t size_;
  std::size_t length_;
};

using ChunkFunction = void (*)(const void* body, std::size_t chunk);
void run_chunks(std::size_t count, ChunkFunction function, const void* body);

/// Calls body(chunk) for every piece, in any order, on the threads that OpenMP grants. Must not throw.
template <class Body>
void for_each_chunk(const Chunks& chunks, const Body& body) {
  run_chunks(
      chunks.count(), [](const void* erased, std::size_t chunk) { (*static_cast<const Body*>(erased))(chunk); }, &body);
}

}  // namespace detail

/// Calls body(piece, begin, end) for pieces of [0, size), in any order. They have at least `minimum` elements and
/// depend on the two numbers alone. Returns how many there are. `body` must not throw.
template <class Body>
std::size_t for_each_piece(std::size_t size, std::size_t minimum, const Body& body) {
  const detail::Chunks pieces(size, minimum);
  detail::for_each_chunk(pieces, [&](std::size_t piece) { body(piece, pieces.begin(piece), pieces.end(piece)); });
  return pieces.count();
}

}  // namespace dragonn::kernels

// SPDX-License-Identifier: MIT
/// Chunks: the pieces of a pass over a gradient, for threads.
#pragma once

#include <algorithm>
#include <cstddef>

#include <omp.h>

namespace dragonn::kernels::detail {

/// The largest number of pieces of a pass: results per piece fit on the stack.
inline constexpr std::size_t kMaxChunks = 256;

/// Cuts [0, size) into pieces of equal length (the last may be shorter). The cut depends on the size alone, so values
/// that are computed per piece and combined in order do not depend on the number of threads.
class Chunks {
 public:
  /// Makes pieces of at least `minimum` elements and, if there is more than one, of a multiple of `alignment`.
  Chunks(std::size_t size, std::size_t minimum, std::size_t alignment = 1) : size_(size) {
    const std::size_t even = (size + kMaxChunks - 1) / kMaxChunks;
    length_ = (std::max(even, minimum) + alignment - 1) / alignment * alignment;
  }

  std::size_t count() const { return (size_ + length_ - 1) / length_; }
  std::size_t begin(std::size_t chunk) const { return chunk * length_; }
  std::size_t end(std::size_t chunk) const { return std::min(size_, (chunk + 1) * length_); }

 private:
  std::size_t size_;
  std::size_t length_;
};

/// Calls body(chunk) for every piece, in any order, on the threads that OpenMP grants. Must not throw.
template <class Body>
void for_each_chunk(const Chunks& chunks, const Body& body) {
  const auto count = static_cast<std::ptrdiff_t>(chunks.count());
  const int threads = static_cast<int>(std::min<std::ptrdiff_t>(omp_get_max_threads(), count));
  if (threads <= 1) {
    for (std::ptrdiff_t chunk = 0; chunk < count; ++chunk) body(static_cast<std::size_t>(chunk));
    return;
  }
  // Pieces are handed out as threads become free, so a thread that the machine holds up does not hold up the pass.
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::ptrdiff_t chunk = 0; chunk < count; ++chunk) body(static_cast<std::size_t>(chunk));
}

}  // namespace dragonn::kernels::detail

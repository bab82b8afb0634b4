// SPDX-License-Identifier: MIT
#include "kernels/pieces.h"

#include <omp.h>

namespace dragonn::kernels {

void detail::run_chunks(std::size_t count, ChunkFunction function, const void* body) {
  const auto chunks = static_cast<std::ptrdiff_t>(count);
  const int threads = static_cast<int>(std::min<std::ptrdiff_t>(omp_get_max_threads(), chunks));
  if (threads <= 1) {
    for (std::size_t chunk = 0; chunk < count; ++chunk) function(body, chunk);
    return;
  }
  // Pieces are handed out as threads become free, so a thread that the machine holds up does not hold up the pass.
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::ptrdiff_t chunk = 0; chunk < chunks; ++chunk) function(body, static_cast<std::size_t>(chunk));
}

}  // namespace dragonn::kernels

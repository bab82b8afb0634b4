// SPDX-License-Identifier: MIT
#include "kernels/pieces.h"

#include "kernels/chunks.h"

namespace dragonn::kernels {

static_assert(kMostPieces == detail::kMaxChunks);

std::size_t detail::run_pieces(std::size_t size, std::size_t minimum, PieceFunction function, const void* body) {
  const Chunks pieces(size, minimum);
  for_each_chunk(pieces, [&](std::size_t piece) { function(body, piece, pieces.begin(piece), pieces.end(piece)); });
  return pieces.count();
}

}  // namespace dragonn::kernels

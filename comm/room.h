// SPDX-License-Identifier: MIT
/// Buffers for messages whose size varies from step to step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "core/buffer.h"
#include "core/sparse_vector.h"

namespace dragonn::comm {

/// Resizes as resize_discard does, but grows to twice the needed room (at most `limit` elements): the sizes of
/// selections differ a little between steps and must not allocate in every other one. Memory that is never touched is
/// never backed by pages.
template <class T>
void resize_with_room(Buffer<T>& buffer, std::size_t size,
                      std::size_t limit = std::numeric_limits<std::size_t>::max()) {
  if (size > buffer.capacity()) buffer.resize_discard(std::max(size, std::min(2 * size, limit)));
  buffer.resize_discard(size);
}
inline void resize_with_room(SparseVector& entries, std::size_t size,
                             std::size_t limit = std::numeric_limits<std::size_t>::max()) {
  resize_with_room(entries.indices, size, limit);
  resize_with_room(entries.values, size, limit);
}

}  // namespace dragonn::comm

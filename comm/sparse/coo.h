// SPDX-License-Identifier: MIT
/// Sparse vectors as messages: all indices, then all values, 8 bytes an entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/sparse_vector.h"

namespace dragonn::comm {

constexpr std::size_t coo_bytes(std::size_t entries) {
  return entries * SparseVector::kEntryBytes;
}

/// The entries of a message, read where they lie.
struct CooView {
  std::span<const std::uint32_t> indices;
  std::span<const float> values;

  std::size_t size() const { return indices.size(); }
};

/// Looks at a message. @param message coo_bytes(entries) long and aligned to 4 bytes, as slices of a Buffer are.
CooView view_coo(std::span<const std::byte> message);
CooView view_coo(const SparseVector& entries);

/// Writes `entries` and fills the rest of the message with empty slots (kEmptySlot, 0).
void pack_coo(const CooView& entries, std::span<std::byte> message);

}  // namespace dragonn::comm

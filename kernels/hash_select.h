// SPDX-License-Identifier: MIT
/// The choice among hits by a hash table of fixed size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "kernels/device_table.h"
#include "kernels/slot_claims.h"
#include "kernels/slot_table.h"

namespace dragonn::kernels {

/// How hits are hashed, and which of those that meet stays.
struct HashRule {
  KeyedSlot slot = {};
  bool by_priority = false;  ///< the higher of two random keys; otherwise the larger index
};

/// Memory of the choice, reused from call to call.
struct HashScratch {
  HashScratch() = default;
  /// For hits on `device`.
  explicit HashScratch(const Device& device) : table(device) {}

  SlotTable table;    ///< of other devices, and on the CPU by priority
  SlotClaims claims;  ///< on the CPU otherwise

  /// Makes room for up to `hits` hits in up to `slots` slots, so that no later call allocates.
  void reserve(std::size_t hits, std::size_t slots);
};

/// Of `hits` (ascending, unique) those that hold their slot, ascending; the same on every device. `kept` is another
/// vector, overwritten. All on one device, the scratch too. Reads 4 bytes per hit to hash it and 8 to look. With a
/// table (see HashScratch) 4 bytes are written per slot, by priority on a GPU 8; without, an eighth. Source: DRAGONN
/// (ICML 2022), algorithm 1.
/// @throws DeviceError for memory of several devices, or of one without a row in the table below.
void hash_select(const SparseVector& hits, const HashRule& rule, HashScratch& scratch, SparseVector& kept);

using HashSelectTable = DeviceTable<void (*)(const SparseVector&, const HashRule&, HashScratch&, SparseVector&)>;
HashSelectTable& hash_select_table();

}  // namespace dragonn::kernels

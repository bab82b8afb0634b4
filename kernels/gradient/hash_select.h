// SPDX-License-Identifier: MIT
/// Hash selection: the choice among hits by a hash table of fixed size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "kernels/gradient/hash_rule.h"
#include "kernels/gradient/slot_table.h"
#include "kernels/operation.h"

namespace dragonn::kernels {

/// Memory of the choice, reused from call to call.
struct HashScratch {
  HashScratch() = default;
  /// Makes memory for hits on `device`.
  explicit HashScratch(const Device& device) : table(device), holders(device) {}

  SlotTable table;       ///< used on other devices, and on the CPU by priority
  SlotClaims claims;     ///< used on the CPU otherwise
  SparseVector holders;  ///< used on other devices: the hits of the last pass that hold their slots

  /// Makes room for up to `hits` hits in up to `slots` slots, so that no later call allocates.
  void reserve(std::size_t hits, std::size_t slots);
};

/// Writes to `kept` those of `hits` (ascending, unique) that hold their slot, ascending; the same on every device.
/// `kept` is another vector, overwritten. All are on one device, the scratch too. Source: DRAGONN (ICML 2022),
/// algorithm 1.
///
/// On the CPU any list will do. It reads 4 bytes per hit to hash it and 8 to keep it; with a table (see HashScratch) it
/// writes 4 bytes per slot, without an eighth. On a GPU the hits are those of the last pass with this choice
/// (PassRequest::hash), which emptied the table, put each hit there as it found it, and listed those that hold their
/// slots: 4 bytes per slot and per hit, by priority 8, then 8 bytes per hit and its slot. That list is copied here,
/// without a wait.
/// @throws DeviceError for memory of several devices, or of one without a row.
extern Operation<void(const SparseVector& hits, const HashChoice& choice, SparseVector& kept)> hash_select;

}  // namespace dragonn::kernels

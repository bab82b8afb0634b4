// SPDX-License-Identifier: MIT
/// The choice among hits by a hash table of fixed size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sparse_vector.h"
#include "kernels/device_table.h"
#include "kernels/slot_table.h"

namespace dragonn::kernels {

/// How hits are hashed, and which of those that meet stays.
struct HashRule {
  KeyedSlot slot = {};
  bool by_priority = false;  ///< the higher of two random keys; otherwise the larger index
};

/// Of `hits` (ascending, unique) those that hold their slot, ascending; the same on every device. `kept` is another
/// vector, overwritten. All on one device, the table too. Reads 4 bytes per hit to fill the table and 8 to look; with
/// 4 (by priority on a GPU 8) written per slot. Source: DRAGONN (ICML 2022), algorithm 1.
/// @throws DeviceError for memory of several devices, or of one without a row in the table below.
void hash_select(const SparseVector& hits, const HashRule& rule, SlotTable& table, SparseVector& kept);

using HashSelectTable = DeviceTable<void (*)(const SparseVector&, const HashRule&, SlotTable&, SparseVector&)>;
HashSelectTable& hash_select_table();

}  // namespace dragonn::kernels

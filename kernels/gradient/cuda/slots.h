// SPDX-License-Identifier: MIT
/// Slots: the table that a gradient pass hashes its hits into on a GPU, to keep those that hold their slots.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/gradient/hash_select.h"

namespace dragonn::kernels::cuda {

/// A table of slots. A slot holds the largest of the keys that claimed it, which does not depend on the order, and is
/// the same as on the CPU: an index counted from 1, in 4 bytes, or a random key, in 8. An empty slot is 0. One index
/// may have the random key 0: it then holds a slot that nothing else was written to, as it should.
struct Slots {
  HashRule rule = {};
  void* words = nullptr;  ///< null if there is no table
};

/// Returns the table of a choice as the last pass left it; none without a choice.
inline Slots filled_slots(const HashChoice& choice) {
  return choice.scratch == nullptr ? Slots{} : Slots{choice.rule, choice.scratch->table.memory().data()};
}

/// Returns the table of a choice with all slots empty; none without a choice. Writes 4 bytes per slot, by priority 8.
inline Slots empty_slots(Context& here, const HashChoice& choice) {
  if (choice.scratch == nullptr) return {};
  Buffer<std::uint32_t>& memory = choice.scratch->table.memory();
  memory.resize_discard(choice.rule.slot.slots * (choice.rule.by_priority ? 2 : 1));
  check(cudaMemsetAsync(memory.data(), 0, memory.size() * sizeof(std::uint32_t), here.stream()), "cudaMemsetAsync");
  return filled_slots(choice);
}

#ifdef DRAGONN_DEVICE_CODE
using IndexWord = unsigned int;
using PriorityWord = unsigned long long;

__device__ inline IndexWord index_key(std::uint32_t index) {
  return index + 1;  // below kEmptySlot
}
__device__ inline PriorityWord priority_key(const HashRule& rule, std::uint32_t index) {
  return SlotPriority{rule.slot.salt}(index);
}

__device__ inline void claim_slot(const Slots& slots, std::uint32_t index) {
  const std::size_t slot = slots.rule.slot(index);
  if (slots.rule.by_priority) {
    atomicMax(static_cast<PriorityWord*>(slots.words) + slot, priority_key(slots.rule, index));
  } else {
    atomicMax(static_cast<IndexWord*>(slots.words) + slot, index_key(index));
  }
}

__device__ inline bool holds_slot(const Slots& slots, std::uint32_t index) {
  const std::size_t slot = slots.rule.slot(index);
  return slots.rule.by_priority ? static_cast<const PriorityWord*>(slots.words)[slot] == priority_key(slots.rule, index)
                                : static_cast<const IndexWord*>(slots.words)[slot] == index_key(index);
}
#endif

}  // namespace dragonn::kernels::cuda

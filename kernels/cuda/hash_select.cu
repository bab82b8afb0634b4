// SPDX-License-Identifier: MIT
// A thread per hit writes its key to its slot by an atomic maximum, which comes out the same in any order, and as on
// the CPU: the largest index, or the highest random key. Then the hits that find their own key in their slot are
// compacted.
#include "kernels/cuda/compact_entries.h"
#include "kernels/hash_select.h"

namespace dragonn::kernels::cuda {
namespace {

/// An empty slot is 0: indices count from 1. They are below kEmptySlot.
struct IndexKey {
  using Word = unsigned int;
  __device__ Word operator()(std::uint32_t index) const { return index + 1; }
};
/// One index may have the key 0. It holds a slot that nothing else was written to, rightly.
struct PriorityKey {
  using Word = unsigned long long;
  SlotPriority priority;
  __device__ Word operator()(std::uint32_t index) const { return priority(index); }
};

template <class Key>
__global__ void fill_kernel(const std::uint32_t* hits, std::size_t size, KeyedSlot slot, Key key,
                            typename Key::Word* slots) {
  for (std::size_t hit = first_element(); hit < size; hit += element_stride()) {
    const std::uint32_t index = hits[hit];
    atomicMax(slots + slot(index), key(index));
  }
}

template <class Key>
struct HoldsSlot {
  KeyedSlot slot;
  Key key;
  const typename Key::Word* slots;
  __device__ Verdict operator()(std::uint32_t index, float /*value*/) const {
    return slots[slot(index)] == key(index) ? Verdict::kKeep : Verdict::kDrop;
  }
  __device__ std::uint32_t most_ties() const { return 0; }
};

template <class Key>
void select(Context& here, const SparseVector& hits, const KeyedSlot& slot, const Key& key, SlotTable& table,
            SparseVector& kept) {
  using Word = typename Key::Word;
  Buffer<std::uint32_t>& memory = table.memory();
  memory.resize_discard(slot.slots * sizeof(Word) / sizeof(std::uint32_t));
  auto* const slots = reinterpret_cast<Word*>(memory.data());
  check(cudaMemsetAsync(slots, 0, slot.slots * sizeof(Word), here.stream()), "cudaMemsetAsync");
  if (!hits.empty()) {
    launch(here, "hash_select", here.blocks(hits.size(), kThreads), kThreads, fill_kernel<Key>, hits.indices.data(),
           hits.size(), slot, key, slots);
  }
  compact_entries(here, hits, HoldsSlot<Key>{slot, key, slots}, kept);
}

void hash_select_on_gpu(const SparseVector& hits, const HashRule& rule, HashScratch& scratch, SparseVector& kept) {
  Context& here = context(hits.device());
  if (rule.by_priority) {
    select(here, hits, rule.slot, PriorityKey{{rule.slot.salt}}, scratch.table, kept);
  } else {
    select(here, hits, rule.slot, IndexKey{}, scratch.table, kept);
  }
}

[[maybe_unused]] const bool registered = hash_select_table().add(DeviceType::kCuda, hash_select_on_gpu);

}  // namespace
}  // namespace dragonn::kernels::cuda

// SPDX-License-Identifier: MIT
// The last part of the choice by a hash table, after the gradient pass has put every hit into it (gradient_pass.cu):
// compacts the hits that find their own key in their slot.
#include "kernels/gradient/cuda/compact_entries.h"
#include "kernels/gradient/cuda/slots.h"

namespace dragonn::kernels::cuda {
namespace {

struct HoldsSlot {
  Slots slots;
  __device__ Verdict operator()(std::uint32_t index, float /*value*/) const {
    return holds_slot(slots, index) ? Verdict::kKeep : Verdict::kDrop;
  }
  __device__ std::uint32_t most_ties() const { return 0; }
};

void hash_select_on_gpu(const SparseVector& hits, const HashChoice& choice, SparseVector& kept) {
  compact_entries(context(hits.device()), hits, HoldsSlot{slots_of(choice)}, kept);
}

[[maybe_unused]] const bool registered = kernels::hash_select.add(DeviceType::kCuda, hash_select_on_gpu);

}  // namespace
}  // namespace dragonn::kernels::cuda

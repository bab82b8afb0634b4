// SPDX-License-Identifier: MIT
// Collective "index_union": all ranks agree on the union of the selected indices and sum acc there.
#include <algorithm>

#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/index_sum.h"

namespace dragonn::comm {
namespace {

/// Sums acc at the union of the selections, which grows with the ranks, up to P times k.
class IndexUnion final : public IndexSum {
 public:
  explicit IndexUnion(std::size_t numel) : IndexSum(numel) {}

  Rounds do_rounds(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                   const SparseVector& selected, SparseReduction& out) override {
    out.reset(communicator.size());
    if (context.selection.shared_indices) return shared_.rounds(acc.size(), selected, out);
    const Layout layout = context.selection.fits_k_slots() ? Layout::kFixed : Layout::kUnpadded;
    return sum_at_union(communicator, context, layout, acc, selected, out);
  }

 private:
  SharedSum shared_;
};

std::string refuses(const SelectionTraits& traits) {
  if (traits.leader_only) return "the collective unites the selections of all ranks, but only the leader selects";
  return refuses_rescaled(traits);
}

Prediction predict(const Settings&, const ExchangeSizes& sizes) {
  if (sizes.selection.shared_indices) return predict_shared_selection(sizes);
  const bool fits = sizes.selection.fits_k_slots(), equal = fits && sizes.coding.is_fixed_size();
  const double slots = equal ? static_cast<double>(std::min(sizes.k, sizes.numel)) : sizes.selected;
  return predict_union(sizes, sizes.index_bytes(slots), equal, fits ? Chain{} : counts_chain(sizes.ranks));
}

std::size_t memory(const Settings&, const ExchangeSizes& sizes, const Device& device) {
  if (sizes.selection.shared_indices) return list_bytes(sizes.global) + word_bytes(sizes.global);
  return union_memory(sizes, device);
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "index_union",
     .summary = "workers gather all selected indices and sum their gradients at the union",
     .source = "ExDyna (2024), section 2, and its released code: the Top-k baseline"},
    refuses,
    /*make=*/[](const Settings&, std::size_t numel) { return std::make_unique<IndexUnion>(numel); },
    predict,
    memory,
    SumSize::kUnion,
    /*traffic=*/"(k + 2 min(k P, n) / P) (P-1)",
    CodedValues::kSums,
    /*resize=*/{},
    /*lists_shared_indices=*/nullptr,
    union_forecast,
    Senders::kAll}};

}  // namespace
}  // namespace dragonn::comm

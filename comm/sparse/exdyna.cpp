// SPDX-License-Identifier: MIT
// Collective "exdyna": disjoint selections, whose indices are gathered in equal messages, and acc summed there.
#include "comm/sparse/index_sum.h"

namespace dragonn::comm {
namespace {

/// Works like index_union for disjoint selections: k' indices at any number of ranks. Messages are padded to the
/// largest count; SparseReduction::owned_counts shows the cost of the padding.
class DisjointUnion final : public IndexSum {
 public:
  explicit DisjointUnion(std::size_t numel) : IndexSum(numel) {}

  Rounds do_rounds(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                   const SparseVector& selected, SparseReduction& out) override {
    out.reset(communicator.size());
    return sum_at_union(communicator, context, Layout::kPadded, acc, selected, out);
  }
};

std::string refuses(const SelectionTraits& traits) {
  if (!traits.partitioned)
    return "the collective needs a sparsifier whose ranks select in disjoint ranges, such as exdyna";
  return refuses_rescaled(traits);
}

Prediction predict(const Settings&, const ExchangeSizes& sizes) {
  // Padding is not coded. A rank's indices are in its own part of the bucket.
  const bool is_padded = sizes.coding.is_fixed_size();
  const double indices = is_padded
                             ? sizes.index_bytes(sizes.largest)
                             : sizes.coding.index_bytes(sizes.selected, static_cast<double>(sizes.numel) / sizes.ranks);
  return predict_union(sizes, indices, is_padded, counts_chain(sizes.ranks));
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "exdyna",
     .summary = "workers select in disjoint partitions, gather the padded indices and sum their gradients at them",
     .source = "ExDyna (2024), algorithm 1"},
    refuses,
    /*make=*/[](const Settings&, std::size_t numel) { return std::make_unique<DisjointUnion>(numel); },
    predict,
    /*memory=*/
    [](const Settings&, const ExchangeSizes& sizes, const Device& device) { return union_memory(sizes, device); },
    SumSize::kUnion,
    /*traffic=*/"3 k (P-1) / P",
    CodedValues::kSums,
    /*resize=*/{},
    /*lists_shared_indices=*/nullptr,
    /*sum_forecast=*/nullptr,
    Senders::kAll}};

}  // namespace
}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
// Collective "cltk": all ranks use the leader's indices.

#include "comm/sparse/coding_error.h"
#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/index_sum.h"
#include "kernels/devices.h"

namespace dragonn::comm {
namespace {

/// Broadcasts the selection of rank (step mod P), and sums acc of all ranks there: k entries at any number of ranks.
class CyclicLeader final : public IndexSum {
 public:
  explicit CyclicLeader(std::size_t numel) : IndexSum(numel) {}

  Rounds do_rounds(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                   const SparseVector& selected, SparseReduction& out) override {
    out.reset(communicator.size());
    if (context.selection.shared_indices) return shared_.rounds(acc.size(), selected, out);
    return sum_at_leader(communicator, context, acc, selected, out);
  }

 private:
  Rounds sum_at_leader(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                       const SparseVector& selected, SparseReduction& out) {
    const auto leader = static_cast<int>(context.step % static_cast<std::uint64_t>(communicator.size()));
    co_await CountsVerb{selected.size(), out.statistics.selected_counts, numel()};
    resize_with_slack(out.sum, out.statistics.selected_counts[static_cast<std::size_t>(leader)], acc.size());
    if (communicator.rank() == leader) kernels::transfer(selected.indices.view(), out.sum.indices.view());
    co_await BroadcastIndicesVerb{leader, out.sum.indices.view(), numel()};
    read(acc, out);
    co_await AllreduceVerb{.values = out.sum.values.view(), .remainder = &out.remainder, .stayed = &out.stayed};
    copy_indices(out.sum.indices.view(), out.contributed, numel());
    return_remainder(out);
  }

  SharedSum shared_;
};

std::string refuses(const SelectionTraits& traits) {
  if (traits.partitioned) return "the collective uses one rank's selection, but each rank selects in its own range";
  return refuses_rescaled(traits);
}

Prediction predict(const Settings&, const ExchangeSizes& sizes) {
  if (sizes.selection.shared_indices) return predict_shared_selection(sizes);
  const double indices = sizes.index_bytes(sizes.global), values = sizes.sum_bytes(sizes.global);
  return {(indices + 2 * values) * share_of_others(sizes.ranks),
          broadcast_chain(indices, sizes.ranks) + ring_allreduce_chain(values, sizes.ranks), counts_chain(sizes.ranks)};
}

std::size_t memory(const Settings&, const ExchangeSizes& sizes, const Device&) {
  return list_bytes(sizes.global) + word_bytes(sizes.global);  // every rank contributes at all indices of the sum
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "cltk",
     .summary = "the leader broadcasts its indices, and all workers sum their gradients at them; the leader changes "
                "every step",
     .source = "ScaleCom (Chen et al., NeurIPS 2020), CLT-k, as used by ExDyna's released code"},
    refuses,
    /*make=*/[](const Settings&, std::size_t numel) { return std::make_unique<CyclicLeader>(numel); },
    predict,
    memory,
    SumSize::kOneRank,
    /*traffic=*/"3 k (P-1) / P",
    CodedValues::kSums,
    /*resize=*/{},
    /*lists_shared_indices=*/nullptr,
    /*sum_forecast=*/nullptr,
    Senders::kAll}};

}  // namespace
}  // namespace dragonn::comm

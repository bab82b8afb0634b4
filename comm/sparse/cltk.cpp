// SPDX-License-Identifier: MIT
// Collective "cltk": the leader's indices are everybody's.
#include <algorithm>

#include "comm/room.h"
#include "comm/sparse/agreed_sum.h"
#include "comm/sparse/counts.h"
#include "comm/sparse/device_index_sum.h"
#include "comm/sparse/exchange_cost.h"
#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {
namespace {

/// Rank (step mod P) broadcasts what it selected, and all ranks sum acc there: k entries at any number of ranks.
class CyclicLeader final : public SparseCollective {
 public:
  explicit CyclicLeader(std::size_t numel) : on_device_(numel) {}

  void do_reduce(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                 const SparseVector& selected, SparseReduction& out) override {
    out.reset(communicator.size());
    const auto leader = static_cast<int>(context.step % static_cast<std::uint64_t>(communicator.size()));
    if (communicator.device_transport() != nullptr) {
      if (context.selection.shared_indices) return on_device_.sum_shared(communicator, context, selected, out);
      return on_device_.sum_at_leader(communicator, context, leader, acc, selected, out);
    }
    if (context.selection.shared_indices) return sum_shared_selection(communicator, context, selected, out);
    out.non_finite = counts_.run(communicator, selected.size(), context.non_finite, out.selected_counts);
    if (out.non_finite) return;
    resize_with_room(out.sum, out.selected_counts[static_cast<std::size_t>(leader)], acc.size());
    const std::span<std::uint32_t> indices = out.sum.indices.host();
    const ScopedHollow scope(communicator, context.payload_only);
    if (communicator.rank() == leader) std::ranges::copy(selected.indices.host(), indices.begin());
    {
      const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
      communicator.broadcast(leader, Communicator::as_writable_bytes(indices));
    }
    sum_acc_at_indices(communicator, reader_, acc, out);
  }

 private:
  CountExchange counts_;
  AccReader reader_;
  DeviceIndexSum on_device_;
};

std::string refuses(const SelectionTraits& traits) {
  if (traits.partitioned) return "the collective uses one rank's selection, but each rank selects in its own range";
  return traits.rescaled
             ? "the collective sums the accumulated gradient, but the sparsifier rescales the selected values"
             : "";
}

Prediction predict(const Settings&, const ExchangeSizes& sizes) {
  if (sizes.selection.shared_indices) return predict_shared_selection(sizes);
  const double bytes = sizeof(float) * sizes.global;  // an index and a value have as many
  return {3 * bytes * share_of_others(sizes.ranks),
          broadcast_chain(bytes, sizes.ranks) + ring_allreduce_chain(bytes, sizes.ranks), counts_chain(sizes.ranks)};
}

std::size_t memory(const Settings&, const ExchangeSizes& sizes, const Device&) {
  return list_bytes(sizes.global) + word_bytes(sizes.global);  // every rank contributes at all indices of the sum
}

const Registration<SparseCollectiveEntry> registration{SparseCollectiveEntry{
    {.name = "cltk",
     .summary = "the leader broadcasts its indices, and all workers sum their gradients at them; another worker leads "
                "every step",
     .source = "ScaleCom (Chen et al., NeurIPS 2020), CLT-k, as used by ExDyna's released code"},
    refuses,
    /*make=*/
    [](const Settings&, std::size_t numel) -> std::unique_ptr<SparseCollective> {
      return std::make_unique<CyclicLeader>(numel);
    },
    predict,
    memory,
    SumSize::kTarget,
    /*traffic=*/"3 k (P-1) / P"}};

}  // namespace
}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/sparse/index_sum.h"

#include <algorithm>

#include "comm/sparse/coding_error.h"
#include "comm/sparse/exchange_cost.h"
#include "kernels/devices.h"
#include "kernels/gradient/select.h"

namespace dragonn::comm {

Rounds SharedSum::rounds(std::size_t numel, const SparseVector& selected, SparseReduction& out) {
  std::ranges::fill(out.statistics.selected_counts, selected.size());
  copy_list(selected, out.sum);
  const bool is_partial = selected.size() < numel;
  co_await AllreduceVerb{
      .values = out.sum.values.view(), .remainder = &out.remainder, .stayed = is_partial ? &out.stayed : nullptr};
  copy_indices(out.sum.indices.view(), out.contributed, out.sum.size());
  // Of every element only a part may have left: nothing is masked, as with a quantizer.
  out.is_partly_applied = out.remainder.size() > 0 && !is_partial;
  return_remainder(out);
}

Prediction predict_shared_selection(const ExchangeSizes& sizes) {
  const double bytes = sizes.sum_bytes(sizes.selected);
  return {2 * bytes * share_of_others(sizes.ranks), ring_allreduce_chain(bytes, sizes.ranks)};
}

std::string refuses_rescaled(const SelectionTraits& traits) {
  return traits.rescaled
             ? "the collective sums the accumulated gradient, but the sparsifier rescales the selected values"
             : "";
}

std::size_t union_memory(const ExchangeSizes& sizes, const Device& device) {
  return word_bytes(sizes.largest * (sizes.ranks + 1.0)) + decoder_bytes(sizes, device) + list_bytes(sizes.global) +
         word_bytes(sizes.global);
}

Prediction predict_union(const ExchangeSizes& sizes, double indices, bool equal, Chain counts) {
  const double values = sizes.sum_bytes(sizes.global);
  const Chain gather =
      equal ? allgather_chain(indices, sizes.ranks) : ring_gather_chain(indices * sizes.ranks, sizes.ranks);
  return {indices * (sizes.ranks - 1) + 2 * values * share_of_others(sizes.ranks),
          gather + ring_allreduce_chain(values, sizes.ranks), counts};
}

Rounds IndexSum::sum_at_union(Communicator& communicator, const ReduceContext& context, Layout layout,
                              View<const float> acc, const SparseVector& selected, SparseReduction& out) {
  std::vector<std::uint64_t>& slots = out.statistics.selected_counts;
  if (layout == Layout::kFixed) {
    const std::size_t fixed_slots = std::min(context.k, numel_);
    DRAGONN_CHECK(selected.size() <= fixed_slots, "{} selected entries do not fit a fixed message of {}",
                  selected.size(), fixed_slots);
    std::ranges::fill(slots, fixed_slots);
  } else {
    co_await CountsVerb{selected.size(), slots, numel_};
  }
  slots_.assign(slots.begin(), slots.end());
  if (layout == Layout::kPadded) std::ranges::fill(slots_, std::ranges::max(slots));
  lists_.resize(slots.size());
  co_await GatherListsVerb{.mine = {selected.indices.view(), {}},
                           .slots = slots_,
                           .lists = lists_,
                           .numel = numel_,
                           .has_values = false,
                           .equal = layout != Layout::kUnpadded};
  std::ranges::transform(lists_, slots.begin(), [](const ListView& list) { return list.size(); });
  if (layout == Layout::kPadded) out.statistics.owned_counts = slots;
  {
    const ScopedSeconds decoding(communicator.clock(), out.statistics.decode_seconds);
    ListOperations& lists = operations(numel_, out.sum.device());
    lists.unite(lists_, out.sum);
    lists.finish();
  }
  read(acc, out);
  co_await AllreduceVerb{.values = out.sum.values.view(), .remainder = &out.remainder, .stayed = &out.stayed};
  copy_indices(out.sum.indices.view(), out.contributed, numel_);
  return_remainder(out);
}

void IndexSum::read(View<const float> acc, SparseReduction& out) {
  const View<const std::uint32_t> indices = out.sum.indices.view();
  if (acc.device() == indices.device()) return kernels::gather(acc, indices, out.sum.values.view());
  if (!(on_device_.device() == acc.device())) on_device_ = SparseVector(acc.device());
  resize_with_slack(on_device_, indices.size(), acc.size());
  kernels::start_transfer(indices, on_device_.indices.view());  // waited for with the values
  kernels::gather(acc, on_device_.indices.view(), on_device_.values.view());
  kernels::transfer(View<const float>(on_device_.values.view()), out.sum.values.view());
}

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/sparse/shared_sum.h"

#include <algorithm>

#include "comm/sparse/coding_error.h"

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

}  // namespace dragonn::comm

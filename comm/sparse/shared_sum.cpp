// SPDX-License-Identifier: MIT
#include "comm/sparse/shared_sum.h"

#include <algorithm>

namespace dragonn::comm {

Rounds SharedSum::rounds(const ReduceContext& context, const SparseVector& selected, SparseReduction& out) {
  std::ranges::fill(out.statistics.selected_counts, selected.size());
  copy_list(selected, out.sum);
  co_await AllreduceVerb{.values = out.sum.values.view()};
  if (!context.payload_only) copy_indices(out.sum.indices.view(), out.contributed, out.sum.size());
}

Prediction predict_shared_selection(const ExchangeSizes& sizes) {
  const double bytes = sizeof(float) * sizes.selected;
  return {2 * bytes * share_of_others(sizes.ranks), ring_allreduce_chain(bytes, sizes.ranks)};
}

}  // namespace dragonn::comm

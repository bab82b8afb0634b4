// SPDX-License-Identifier: MIT
#include "comm/sparse/agreed_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/room.h"
#include "kernels/select.h"

namespace dragonn::comm {

void sum_agreed_values(Communicator& communicator, bool non_finite, SparseReduction& out) {
  const std::span<float> values = out.sum.values.host();
  if (non_finite && !values.empty()) values[0] = std::numeric_limits<float>::quiet_NaN();
  {
    const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
    communicator.allreduce_sum(out.sum.values.view());
  }
  if (communicator.is_hollow()) return;
  out.non_finite = !values.empty() && !std::isfinite(values[0]);
  if (out.non_finite) return;
  resize_with_room(out.contributed, out.sum.size());
  std::ranges::copy(out.sum.indices.host(), out.contributed.data());
}

void sum_acc_at_indices(Communicator& communicator, AccReader& reader, View<const float> acc, SparseReduction& out) {
  if (!communicator.is_hollow()) reader.gather(acc, out.sum.indices.view(), out.sum.values.view());
  sum_agreed_values(communicator, /*non_finite=*/false, out);
}

void sum_shared_selection(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
                          SparseReduction& out) {
  resize_with_room(out.sum, selected.size());
  kernels::copy_entries(selected, out.sum);
  sum_agreed_values(communicator, context.non_finite, out);
  std::ranges::fill(out.selected_counts, selected.size());
}

Prediction predict_shared_selection(const ExchangeSizes& sizes) {
  const double bytes = sizeof(float) * sizes.selected;
  return {2 * bytes * share_of_others(sizes.ranks), ring_allreduce_chain(bytes, sizes.ranks)};
}

}  // namespace dragonn::comm

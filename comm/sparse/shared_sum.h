// SPDX-License-Identifier: MIT
/// SharedSum: sums selections that have the same indices on all ranks.
#pragma once

#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// Sums values as a short dense vector: no index travels (SelectionTraits::shared_indices).
class SharedSum final : public RoundsOwner {
 public:
  /// Sums for a bucket of `numel` elements: out.sum <- the entries with the sums of their values; every rank has
  /// contributed its own.
  Rounds rounds(std::size_t numel, const SparseVector& selected, SparseReduction& out);
};

/// Predicts the cost of such a sum.
Prediction predict_shared_selection(const ExchangeSizes& sizes);

}  // namespace dragonn::comm

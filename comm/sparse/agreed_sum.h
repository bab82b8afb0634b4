// SPDX-License-Identifier: MIT
/// Sums over indices that all ranks agree on: no index travels, and the values are a short dense vector.
#pragma once

#include "comm/sparse/acc_reader.h"
#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// Collective. out.sum holds the agreed indices and this rank's values there; afterwards the sums over ranks, and every
/// rank has contributed its entries. A ring allreduce: 2 |J| (P-1)/P words, mean over ranks.
/// @param non_finite this rank saw NaN or infinity. The flag costs no message: it is a NaN in the first value. If any
/// rank raises it, out.non_finite is set on all, and nobody has contributed anything.
void sum_agreed_values(Communicator& communicator, bool non_finite, SparseReduction& out);

/// As sum_agreed_values with acc at the indices of out.sum: entries count that a rank did not select, too.
void sum_acc_at_indices(Communicator& communicator, AccReader& reader, View<const float> acc, SparseReduction& out);

/// As sum_agreed_values of selections that have the same indices on all ranks (SelectionTraits::shared_indices).
void sum_shared_selection(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
                          SparseReduction& out);

/// What that costs.
Prediction predict_shared_selection(const ExchangeSizes& sizes);

}  // namespace dragonn::comm

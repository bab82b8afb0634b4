// SPDX-License-Identifier: MIT
/// Sums of buckets, entry by entry, whether they are dense or sparse.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/sparse/sparse_collective.h"
#include "exchange/bucket_sum.h"

namespace dragonn::exchange::testing {

/// Calls use(place in the arena, value) for each value of a bucket's sum.
template <class Use>
void for_each_value(const BucketSum& sum, const Use& use) {
  const auto values = sum.values().host();
  for (std::size_t i = 0; i < values.size(); ++i)
    use(sum.offset + (sum.entries != nullptr ? sum.entries->indices.host()[i] : i), values[i]);
}

/// Writes what a collective summed for the bucket at `offset` to the sums of all buckets.
inline void write_sum(const comm::SparseReduction& reduction, std::size_t offset, std::vector<double>& sums) {
  const auto values = (reduction.is_dense ? reduction.dense_sum : reduction.sum.values).host();
  for (std::size_t i = 0; i < values.size(); ++i)
    sums[offset + (reduction.is_dense ? i : reduction.sum.indices.host()[i])] = values[i];
}

}  // namespace dragonn::exchange::testing

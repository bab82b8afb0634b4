// SPDX-License-Identifier: MIT
/// SharedSum and IndexSum: sums at indices that all ranks have, or agree on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

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

/// Returns why a sum of acc does not go with a sparsifier that rescales what it selects; empty if it does.
std::string refuses_rescaled(const SelectionTraits& traits);
/// Returns the bytes of the indices of all ranks, with zeros beside them while they are united, and of the sum at them,
/// to which all ranks contribute.
std::size_t union_memory(const ExchangeSizes& sizes, const Device& device);

/// Predicts the cost of gathering `indices` bytes from each rank, in messages of one size if `equal`, and of the sum of
/// values at their union.
Prediction predict_union(const ExchangeSizes& sizes, double indices, bool equal, Chain counts);

/// Base of the collectives that agree on indices before any value travels. A rank also contributes values that it did
/// not select itself, so that nothing at an agreed index stays behind.
class IndexSum : public SparseCollective {
 protected:
  explicit IndexSum(std::size_t numel) : numel_(numel) {}

  /// The layout of the messages of indices. kFixed: as many slots on every rank, known without a header. kPadded: all
  /// as long as the longest, after a header of the counts. kUnpadded: each as long as its list, after that header.
  enum class Layout { kFixed, kPadded, kUnpadded };

  /// Sums acc at the union of all selections. 4 bytes a slot to each other rank, then a ring allreduce of the union's
  /// values.
  Rounds sum_at_union(Communicator& communicator, const ReduceContext& context, Layout layout, View<const float> acc,
                      const SparseVector& selected, SparseReduction& out);

  /// Reads out.sum.values <- acc at out.sum.indices, on any device.
  void read(View<const float> acc, SparseReduction& out);
  std::size_t numel() const { return numel_; }

 private:
  std::size_t numel_;
  std::vector<std::uint64_t> slots_;  // by rank, as are lists_
  std::vector<ListView> lists_;
  SparseVector on_device_;  // of a GPU's acc whose lists are host memory
};

}  // namespace dragonn::comm

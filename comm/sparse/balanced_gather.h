// SPDX-License-Identifier: MIT
/// BalancedGather: gathers lists of very different sizes at the price of equal ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/sparse/coo_gather.h"
#include "comm/sparse/counts.h"
#include "comm/sparse/slice_exchange.h"

namespace dragonn::comm {

/// Ok-Topk, section 3.1.4: before the gather the concatenated lists are cut anew into P blocks whose sizes differ by at
/// most one. On a ring one long list would pass through every rank in turn while the others wait.
class BalancedGather {
 public:
  explicit BalancedGather(std::size_t in_flight) : slices_(in_flight) {}

  /// Collective. all <- the lists of all ranks, in rank order. They are balanced first if the largest of them has more
  /// than `balance_above` times the mean number of entries: 2k(P-1)/P words at most; the gather then 2k(P-1)/P, where k
  /// is their total.
  /// @param hollow the gather is (ScopedHollow), and `all` gets its size alone.
  void run(Communicator& communicator, const SparseVector& mine, double balance_above, SparseVector& all,
           bool hollow = false);
  /// Entries of each rank's list in the last run, before it was balanced.
  const std::vector<std::uint64_t>& counts() const { return counts_; }

 private:
  CooView balance(Communicator& communicator, const SparseVector& mine, std::uint64_t total);

  CountExchange counter_;
  SliceExchange slices_;
  CooGather gather_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> balanced_counts_;
  std::vector<std::size_t> cuts_;
  std::vector<std::uint64_t> most_to_;
  std::vector<std::uint64_t> most_from_;
  SparseVector balanced_;
};

}  // namespace dragonn::comm

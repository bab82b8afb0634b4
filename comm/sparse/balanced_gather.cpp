// SPDX-License-Identifier: MIT
#include "comm/sparse/balanced_gather.h"

#include <algorithm>
#include <numeric>

#include "comm/blocks.h"
#include "comm/room.h"

namespace dragonn::comm {

void BalancedGather::run(Communicator& communicator, const SparseVector& mine, double balance_above, SparseVector& all,
                         bool hollow) {
  counts_.resize(static_cast<std::size_t>(communicator.size()));
  counter_.run(communicator, mine.size(), /*non_finite=*/false, counts_);
  const auto total = std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
  const double mean = static_cast<double>(total) / communicator.size();
  const bool uneven = static_cast<double>(std::ranges::max(counts_)) > balance_above * mean;
  const CooView balanced = uneven ? balance(communicator, mine, total) : view_coo(mine);
  const ScopedHollow scope(communicator, hollow);
  gather_.run(communicator, balanced, uneven ? balanced_counts_ : counts_);
  if (!hollow) return gather_.concatenate(all);
  resize_with_room(all, total);
}

/// Leaves in balanced_counts_ the sizes after it.
CooView BalancedGather::balance(Communicator& communicator, const SparseVector& mine, std::uint64_t total) {
  const std::size_t ranks = counts_.size();
  const auto me = static_cast<std::size_t>(communicator.rank());
  cuts_.resize(ranks + 1);
  most_to_.resize(ranks);
  most_from_.resize(ranks);
  const Block own = block(total, ranks, me);
  std::uint64_t first = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t last = first + counts_[rank];
    // The part of this rank's block that the list [first, last) of the whole sequence has.
    const auto part_end = std::clamp<std::uint64_t>(own.end, first, last);
    const auto part_begin = std::clamp<std::uint64_t>(own.begin, first, last);
    most_from_[rank] = rank == me ? 0 : part_end - part_begin;
    if (rank == me) {
      for (std::size_t target = 0; target <= ranks; ++target) {
        cuts_[target] = std::clamp<std::uint64_t>(block_begin(total, ranks, target), first, last) - first;
      }
    }
    first = last;
  }
  for (std::size_t target = 0; target < ranks; ++target) {
    most_to_[target] = target == me ? 0 : cuts_[target + 1] - cuts_[target];
  }
  slices_.run(communicator, view_coo(mine), {cuts_, most_to_, most_from_});

  balanced_counts_.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) balanced_counts_[rank] = block(total, ranks, rank).size();
  resize_with_room(balanced_, balanced_counts_[me]);
  std::size_t count = 0;
  for (std::size_t source = 0; source < ranks; ++source) {
    const CooView& list = slices_.from(source);
    std::ranges::copy(list.indices, balanced_.indices.data() + count);
    std::ranges::copy(list.values, balanced_.values.data() + count);
    count += list.size();
  }
  return view_coo(balanced_);
}

}  // namespace dragonn::comm

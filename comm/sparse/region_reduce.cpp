// SPDX-License-Identifier: MIT
#include "comm/sparse/region_reduce.h"

#include <algorithm>

#include <fmt/format.h>

#include "comm/sparse/scoped_seconds.h"

namespace dragonn::comm {

void RegionReduce::run(Communicator& communicator, const SparseVector& selected, std::span<const std::uint64_t> regions,
                       SparseReduction& out, SparseVector& reduced) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto me = static_cast<std::size_t>(communicator.rank());
  const auto indices = selected.indices.host();
  const auto region_size = [&](std::size_t rank) { return regions[rank + 1] - regions[rank]; };
  cuts_.resize(ranks + 1);
  most_to_.resize(ranks);
  most_from_.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    cuts_[rank] = static_cast<std::size_t>(std::ranges::lower_bound(indices, regions[rank]) - indices.begin());
    most_to_[rank] = rank == me ? 0 : std::min(out.selected_counts[me], region_size(rank));
    most_from_[rank] = rank == me ? 0 : std::min(out.selected_counts[rank], region_size(me));
  }
  cuts_[ranks] = selected.size();
  slices_.run(communicator, view_coo(selected), {cuts_, most_to_, most_from_});

  const ScopedSeconds decoding(communicator.clock(), out.decode_seconds);
  for (std::size_t step = 0; step < ranks; ++step) {
    const std::size_t source = (me + ranks - step) % ranks;
    const CooView& list = slices_.from(source);
    check_region(list, source, regions[me], regions[me + 1]);
    decoder_.add(list);
  }
  decoder_.finish(reduced);
}

void RegionReduce::check_region(const CooView& list, std::size_t source, std::uint64_t begin, std::uint64_t end) const {
  if (list.size() == 0 || (list.indices.front() >= begin && list.indices.back() < end)) return;
  throw CommError(
      fmt::format("rank {} sent entries {} to {} of {} for the region [{}, {}): the ranks disagree on the region",
                  source, list.indices.front(), list.indices.back(), numel_, begin, end));
}

}  // namespace dragonn::comm

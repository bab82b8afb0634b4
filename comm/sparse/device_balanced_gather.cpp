// SPDX-License-Identifier: MIT
#include "comm/sparse/device_balanced_gather.h"

#include <algorithm>
#include <numeric>

#include "comm/blocks.h"
#include "comm/room.h"
#include "comm/sparse/device_bytes.h"
#include "kernels/devices.h"

namespace dragonn::comm {

void DeviceBalancedGather::count(Communicator& communicator, const SparseVector& mine) {
  counts_.resize(static_cast<std::size_t>(communicator.size()));
  counter_.run(communicator, mine.size(), /*non_finite=*/false, counts_);
}

void DeviceBalancedGather::run(Communicator& communicator, const SparseVector& mine, double balance_above,
                               SparseVector& all) {
  const auto total = std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
  const double mean = static_cast<double>(total) / communicator.size();
  resize_with_room(all, total);
  if (static_cast<double>(std::ranges::max(counts_)) <= balance_above * mean)
    return gather(communicator, mine, counts_, all);
  const SparseVector& balanced = balance(communicator, mine, total);
  gather(communicator, balanced, balanced_counts_, all);
}

/// Leaves in balanced_counts_ the sizes after it.
const SparseVector& DeviceBalancedGather::balance(Communicator& communicator, const SparseVector& mine,
                                                  std::uint64_t total) {
  const std::size_t ranks = counts_.size();
  const auto me = static_cast<std::size_t>(communicator.rank());
  // The own list is [first, last) of the whole sequence.
  const auto first = std::accumulate(counts_.begin(), counts_.begin() + communicator.rank(), std::uint64_t{0});
  const std::uint64_t last = first + counts_[me];
  cuts_.resize(ranks + 1);
  for (std::size_t target = 0; target <= ranks; ++target)
    cuts_[target] = std::clamp<std::uint64_t>(block_begin(total, ranks, target), first, last) - first;
  slices_.run(communicator, mine, cuts_);
  balanced_counts_.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) balanced_counts_[rank] = block(total, ranks, rank).size();
  resize_with_room(balanced_, balanced_counts_[me]);
  std::size_t count = 0;
  for (std::size_t source = 0; source < ranks; ++source) {
    const View<const std::uint32_t> indices = slices_.indices_from(source);
    kernels::transfer(indices, balanced_.indices.view().subview(count, indices.size()));
    kernels::transfer(slices_.values_from(source), balanced_.values.view().subview(count, indices.size()));
    count += indices.size();
  }
  return balanced_;
}

void DeviceBalancedGather::gather(Communicator& communicator, const SparseVector& mine,
                                  std::span<const std::uint64_t> counts, SparseVector& all) {
  const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
  const auto gather_into = [&](const auto& own, auto& whole) {
    parts_.clear();
    std::size_t begin = 0;
    for (const std::uint64_t count : counts) {
      parts_.push_back(bytes_of(whole.view().subview(begin, count)));
      begin += count;
    }
    communicator.device_transport()->gather(bytes_of(own), parts_);
  };
  gather_into(mine.indices, all.indices);
  gather_into(mine.values, all.values);
}

}  // namespace dragonn::comm

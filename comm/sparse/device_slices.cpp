// SPDX-License-Identifier: MIT
#include "comm/sparse/device_slices.h"

#include <algorithm>

#include "comm/room.h"
#include "comm/sparse/device_bytes.h"

namespace dragonn::comm {

void DeviceSlices::run(Communicator& communicator, const SparseVector& mine, std::span<const std::size_t> bounds) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto me = static_cast<std::size_t>(communicator.rank());
  tell_sizes(communicator, bounds);
  while (lists_.size() < ranks) lists_.emplace_back(mine.device());
  indices_.resize(ranks);
  values_.resize(ranks);
  outgoing_.clear();
  incoming_.clear();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t to = bounds[rank + 1] - bounds[rank];
    const View<const std::uint32_t> indices = mine.indices.view().subview(bounds[rank], to);
    const View<const float> values = mine.values.view().subview(bounds[rank], to);
    if (rank == me) {
      indices_[me] = indices;
      values_[me] = values;
      continue;
    }
    outgoing_.push_back({static_cast<int>(rank), bytes_of(indices)});
    outgoing_.push_back({static_cast<int>(rank), bytes_of(values)});
    SparseVector& list = lists_[rank];
    resize_with_room(list, sizes_[rank * ranks + me]);
    incoming_.push_back({static_cast<int>(rank), bytes_of(list.indices)});
    incoming_.push_back({static_cast<int>(rank), bytes_of(list.values)});
    indices_[rank] = list.indices.view();
    values_[rank] = list.values.view();
  }
  const ScopedPhase phase(communicator.traffic(), Phase::kExchange);
  communicator.device_transport()->exchange(outgoing_, incoming_);
}

void DeviceSlices::tell_sizes(Communicator& communicator, std::span<const std::size_t> bounds) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  sizes_.resize(ranks * ranks);
  const auto mine = std::span(sizes_).subspan(static_cast<std::size_t>(communicator.rank()) * ranks, ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    mine[rank] = static_cast<std::uint32_t>(bounds[rank + 1] - bounds[rank]);
  const ScopedPhase phase(communicator.traffic(), Phase::kHeader);
  communicator.allgather(Communicator::as_bytes(std::span<const std::uint32_t>(mine)),
                         Communicator::as_writable_bytes(std::span(sizes_)));
}

}  // namespace dragonn::comm

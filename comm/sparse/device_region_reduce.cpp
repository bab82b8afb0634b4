// SPDX-License-Identifier: MIT
#include "comm/sparse/device_region_reduce.h"

#include <algorithm>

namespace dragonn::comm {

void DeviceRegionReduce::exchange(Communicator& communicator, const SparseVector& selected,
                                  std::span<const std::uint64_t> regions) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::span<const std::uint32_t> indices = indices_.of(selected.indices.view());
  cuts_.resize(ranks + 1);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    cuts_[rank] = static_cast<std::size_t>(std::ranges::lower_bound(indices, regions[rank]) - indices.begin());
  cuts_[ranks] = selected.size();
  slices_.run(communicator, selected, cuts_);
}

void DeviceRegionReduce::sum(const Communicator& communicator, DeviceLists& lists, SparseVector& reduced) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto me = static_cast<std::size_t>(communicator.rank());
  for (std::size_t step = 0; step < ranks; ++step) {
    const std::size_t source = (me + ranks - step) % ranks;
    lists.add(slices_.indices_from(source), slices_.values_from(source));
  }
  lists.finish(reduced);
}

}  // namespace dragonn::comm

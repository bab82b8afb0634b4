// SPDX-License-Identifier: MIT
/// DeviceRegionReduce: each rank sums the entries of all ranks in one region of the bucket, in the memory of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/sparse/device_lists.h"
#include "comm/sparse/device_slices.h"
#include "kernels/devices.h"

namespace dragonn::comm {

/// RegionReduce over a DeviceTransport: the same sums, in the same order of additions. Where the regions begin in the
/// selection is found by the host, in a copy of its indices: 4 bytes per entry.
class DeviceRegionReduce {
 public:
  /// @param device where selections are.
  explicit DeviceRegionReduce(const Device& device) : indices_(device) {}

  /// Collective. Sends every rank what is selected in its region.
  /// @param regions P + 1 non-decreasing boundaries from 0 to numel, the same on all ranks.
  void exchange(Communicator& communicator, const SparseVector& selected, std::span<const std::uint64_t> regions);
  /// reduced <- the sum of what came, ascending; an index whose values cancel stays.
  void sum(const Communicator& communicator, DeviceLists& lists, SparseVector& reduced);

 private:
  DeviceSlices slices_;
  kernels::HostMirror<std::uint32_t> indices_;
  std::vector<std::size_t> cuts_;
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// DeviceBalancedGather: gathers lists of very different sizes at the price of equal ones, from GPU to GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/sparse/counts.h"
#include "comm/sparse/device_slices.h"

namespace dragonn::comm {

/// BalancedGather over a DeviceTransport.
class DeviceBalancedGather {
 public:
  explicit DeviceBalancedGather(const Device& device) : balanced_(device) {}

  /// Collective, ahead of `run` with the same list: counts() <- the entries of each rank's list.
  void count(Communicator& communicator, const SparseVector& mine);
  const std::vector<std::uint64_t>& counts() const { return counts_; }
  /// Collective. all <- the lists of all ranks, in rank order, balanced first as BalancedGather does.
  void run(Communicator& communicator, const SparseVector& mine, double balance_above, SparseVector& all);

 private:
  const SparseVector& balance(Communicator& communicator, const SparseVector& mine, std::uint64_t total);
  void gather(Communicator& communicator, const SparseVector& mine, std::span<const std::uint64_t> counts,
              SparseVector& all);

  CountExchange counter_;
  DeviceSlices slices_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> balanced_counts_;
  std::vector<std::size_t> cuts_;
  std::vector<View<std::byte>> parts_;
  SparseVector balanced_;
};

}  // namespace dragonn::comm

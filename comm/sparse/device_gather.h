// SPDX-License-Identifier: MIT
/// DeviceGather: the selections of all ranks, gathered and summed in the memory of a GPU.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/sparse/counts.h"
#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// As the collective allgather with dense decoding, where the ranks have a DeviceTransport. Lists travel as long as
/// they are; their counts are a header of the communicator.
class DeviceGather {
 public:
  explicit DeviceGather(std::size_t numel) : numel_(numel) {}

  /// Collective. out.dense_sum <- the lists, added up in rank order, each by a pass of its own over its entries: the
  /// same bits on every rank. 8 bytes per own entry sent to each other rank, 4 bytes per element of the bucket written.
  /// @param selected on the device that out was made for.
  void run(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
           SparseReduction& out);

 private:
  void gather(Communicator& communicator, const SparseVector& selected, bool nothing);
  void decode(SparseReduction& out);

  std::size_t numel_;
  CountExchange counts_;
  std::vector<SparseVector> lists_;  // by rank
  std::vector<View<std::byte>> parts_;
};

}  // namespace dragonn::comm

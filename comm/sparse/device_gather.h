// SPDX-License-Identifier: MIT
/// DeviceGather: the selections of all ranks, gathered and summed in the memory of a GPU.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "comm/sparse/counts.h"
#include "comm/sparse/sparse_collective.h"
#include "kernels/decode.h"

namespace dragonn::comm {

/// The collective allgather where the ranks have a DeviceTransport. Lists travel as long as they are; their counts are
/// a header of the communicator.
class DeviceGather {
 public:
  DeviceGather(std::size_t numel, bool decode_dense) : numel_(numel), decode_dense_(decode_dense) {}

  /// Collective. out.sum (out.dense_sum with dense decoding) <- the lists, added up in rank order, each by a pass of
  /// its own over its entries: the same bits on every rank. 8 bytes per own entry sent to each other rank; for the cost
  /// of the sum see kernels::ListDecoder.
  /// @param selected on the device that out was made for.
  void run(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
           SparseReduction& out);

 private:
  void gather(Communicator& communicator, const SparseVector& selected, bool nothing);
  void decode(SparseReduction& out);

  std::size_t numel_;
  bool decode_dense_;
  std::optional<kernels::ListDecoder> decoder_;  // of sparse sums, from the first call on
  CountExchange counts_;
  std::vector<SparseVector> lists_;  // by rank
  std::vector<View<std::byte>> parts_;
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// DeviceIndexSum: acc summed at indices that all ranks agree on, in the memory of a GPU.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "comm/sparse/counts.h"
#include "comm/sparse/sparse_collective.h"
#include "kernels/decode.h"

namespace dragonn::comm {

/// The collectives index_union, exdyna and cltk where the ranks have a DeviceTransport. Lists travel as long as they
/// are; their counts are a header of the communicator. Everything is on the device that `out` was made for.
class DeviceIndexSum {
 public:
  explicit DeviceIndexSum(std::size_t numel) : numel_(numel) {}

  // All are collective: out.sum <- sums over ranks, and every rank has contributed its entries. If a rank saw NaN or
  // infinity, out.non_finite is set on all ranks instead.

  /// acc at the indices that any rank selected. 4 bytes per own entry sent to each other rank, and as an allreduce of
  /// the union's values.
  void sum_at_union(Communicator& communicator, const ReduceContext& context, View<const float> acc,
                    const SparseVector& selected, SparseReduction& out);
  /// acc at the indices that rank `leader` selected. 4 bytes for each of them sent by the leader to each other rank,
  /// and as an allreduce of their values.
  void sum_at_leader(Communicator& communicator, const ReduceContext& context, int leader, View<const float> acc,
                     const SparseVector& selected, SparseReduction& out);
  /// Selections that have the same indices on all ranks: as an allreduce of their values.
  void sum_shared(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
                  SparseReduction& out);

 private:
  /// The header. Returns whether the exchange goes on.
  bool agree_on_counts(Communicator& communicator, const ReduceContext& context, const SparseVector& selected,
                       SparseReduction& out);
  void unite(Communicator& communicator, const SparseVector& selected, SparseReduction& out);
  void sum_acc(Communicator& communicator, View<const float> acc, SparseReduction& out);
  static void sum_values(Communicator& communicator, SparseReduction& out);

  std::size_t numel_;
  CountExchange counts_;
  std::optional<kernels::ListDecoder> decoder_;  // from the first union on
  std::vector<Buffer<std::uint32_t>> lists_;     // by rank
  std::vector<View<std::byte>> parts_;
  Buffer<float> zeros_;  // the lists' values, for the decoder
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// IndexGather: every rank gets the indices that every rank selected, a word each, and unites them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/sparse/batch_decoder.h"
#include "comm/sparse/counts.h"
#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// For methods that agree on a set of indices before any value travels.
class IndexGather {
 public:
  /// kFixed: as many slots on every rank, known without a header. kPadded: all lists as long as the longest, after a
  /// header of the counts. kUnpadded: each list as it is, after that header.
  enum class Layout { kFixed, kPadded, kUnpadded };

  explicit IndexGather(std::size_t numel) : numel_(numel), decoder_(numel) {}

  /// Collective. out.sum.indices <- the union of all selections, ascending; out.sum.values has as many elements, of no
  /// meaning yet. Fills out.selected_counts. If a rank saw NaN or infinity, sets out.non_finite on all ranks instead.
  /// Words sent: slots times (P-1); kUnpadded all lists but the next rank's.
  /// @throws CommError if a rank sends an index that is not below numel, or that does not ascend.
  void run(Communicator& communicator, const ReduceContext& context, const SparseVector& selected, Layout layout,
           SparseReduction& out);

 private:
  void gather(Communicator& communicator, const ReduceContext& context, std::span<const std::uint32_t> mine,
              Layout layout, std::span<const std::uint64_t> slots);
  void unite(std::span<const std::uint64_t> slots, SparseReduction& out);

  std::size_t numel_;
  CountExchange counts_;
  BatchDecoder decoder_;
  std::vector<std::uint64_t> slots_;
  std::vector<std::size_t> sizes_;
  Buffer<std::uint32_t> gathered_;
  Buffer<float> zeros_;  // the lists' values, for the decoder
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// RegionReduce: each rank sums the entries of all ranks in one region of the bucket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/sparse/batch_decoder.h"
#include "comm/sparse/slice_exchange.h"
#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

/// The first half of a sparse allreduce. An entry is sent to the owner of its region at most once, so that k entries
/// per rank cost 2k(P-1)/P words where regions hold equal shares. An element is summed in the order own, w - 1, w - 2,
/// ... of the ranks, at its owner alone.
class RegionReduce {
 public:
  RegionReduce(std::size_t numel, std::size_t in_flight) : numel_(numel), decoder_(numel), slices_(in_flight) {}

  /// Collective. reduced <- the sum of this rank's region [regions[w], regions[w + 1]), ascending; an index whose
  /// values cancel stays.
  /// @param regions P + 1 non-decreasing boundaries from 0 to numel, the same on all ranks.
  /// @param out selected_counts are those of all ranks; decode_seconds is added to.
  /// @throws CommError if entries come that are not of this rank's region.
  void run(Communicator& communicator, const SparseVector& selected, std::span<const std::uint64_t> regions,
           SparseReduction& out, SparseVector& reduced);

 private:
  void check_region(const CooView& list, std::size_t source, std::uint64_t begin, std::uint64_t end) const;

  std::size_t numel_;
  BatchDecoder decoder_;
  SliceExchange slices_;
  std::vector<std::size_t> cuts_;
  std::vector<std::uint64_t> most_to_;
  std::vector<std::uint64_t> most_from_;
};

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
/// BatchDecoder: sums many sparse lists into one, list after list.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/sparse/coo.h"
#include "core/buffer.h"
#include "core/sparse_vector.h"

namespace dragonn::comm {

/// Batched sparse decoding (DRAGONN section 4.3): all lists are added to one dense vector, which is then read out. The
/// vector is scratch that is never cleared: a bitmap says which of its elements are valid, and the bitmap's sweep
/// yields the indices in ascending order. A batch of k' entries costs 2k' random accesses and n/64 words of bitmap,
/// where merging P lists costs k' log P comparisons that no branch predictor guesses.
///
/// Each element is summed in the order of the add() calls: rank order, where lists are added so. Lists need not be
/// sorted. Memory: 4n + n/8 bytes, allocated at the first use, and none after that.
class BatchDecoder {
 public:
  explicit BatchDecoder(std::size_t numel) : numel_(numel) {}

  /// Adds a list, skipping empty slots. Returns the number of entries added.
  /// @throws CommError if an index is not below numel.
  std::size_t add(const CooView& list);
  /// Writes the sum of the lists (ascending, unique; an index whose values cancel stays) and starts anew.
  void finish(SparseVector& sum);

 private:
  void allocate();

  std::size_t numel_;
  std::size_t added_ = 0;             // entries since the last finish, duplicates included
  Buffer<float> values_;              // [numel], valid where the bitmap says so
  Buffer<std::uint64_t> is_present_;  // one bit per element
};

/// sum[i] += value for every entry: the dense form of the same. Returns the number of entries that were not empty.
/// @throws CommError if an index is not below sum.size().
std::size_t add_to_dense(const CooView& list, std::span<float> sum);

}  // namespace dragonn::comm

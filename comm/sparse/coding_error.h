// SPDX-License-Identifier: MIT
/// CodingError: the mass that lossy codes of a rank's lists left behind, which the rank keeps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/sparse/sparse_collective.h"
#include "core/sparse_vector.h"

namespace dragonn::comm {

/// Collects what the lists of one exchange lost in their codes, and hands it back to the rank that encoded them. Lists
/// are host memory; memory is kept from step to step.
class CodingError {
 public:
  /// Forgets what was collected.
  void clear();
  /// Adds the selection less what its code decodes to, which has the same indices.
  void add_selection(const ListView& list, const ListView& decoded) { add(list, decoded, /*zeros_stay=*/true); }
  /// Adds a list of sums likewise. A sum that is 0 has cancelled: its terms have left their ranks.
  void add_sums(const ListView& list, const ListView& decoded) { add(list, decoded, /*zeros_stay=*/false); }
  /// Notes that the entries at these indices of the bucket stay with this rank.
  void note_stayed(std::span<const std::uint32_t> indices);
  /// Hands all of it back: out.returned <- out.returned + what was collected.
  void give_back(SparseReduction& out);
  /// Hands back what was lost at the indices of the sum. Elsewhere nothing left the ranks.
  void give_back_at_sum(SparseReduction& out);
  /// Lets momentum go on at entries of which nothing left, because they decode to 0 or were noted: takes their indices
  /// out of out.masked().
  void unmask_stayed(SparseReduction& out);

 private:
  void add(const ListView& list, const ListView& decoded, bool zeros_stay);
  /// Makes room for more indices, and for as many again: their number varies between steps.
  void reserve_more(std::size_t more);

  SparseVector left_, difference_, merged_;
  Buffer<std::uint32_t> common_;
  std::vector<std::uint32_t> stayed_;  // indices, ascending in each list
};

/// Hands back what the rounding of partial sums left behind at the entries of the sum, all of which were contributed:
/// out.returned <- out.remainder, which is empty then. Momentum goes on where a whole partial sum stayed. Does nothing
/// if the remainder is empty.
void return_remainder(SparseReduction& out);

/// Lets momentum stop only where something reached the sum: out.applied <- the contributed indices at which the sum is
/// not 0.
void mask_nonzero(SparseReduction& out);

}  // namespace dragonn::comm

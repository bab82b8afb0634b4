// SPDX-License-Identifier: MIT
/// CodingError: the mass that lossy codes of a rank's lists left behind, which the rank keeps.
#pragma once

#include <cstdint>

#include "comm/sparse/sparse_collective.h"
#include "core/sparse_vector.h"

namespace dragonn::comm {

/// Collects what the lists of one exchange lost in their codes, and hands it back to the rank that encoded them. Lists
/// are host memory; memory is kept from step to step.
class CodingError {
 public:
  /// Forgets what was collected.
  void clear() { left_.clear(); }
  /// Adds the list less what its code decodes to, which has the same indices.
  void add(const ListView& list, const ListView& decoded);
  /// Hands all of it back: out.returned <- out.returned + what was collected.
  void give_back(SparseReduction& out);
  /// Hands back what was lost at the indices of the sum. Elsewhere nothing left the ranks.
  void give_back_at_sum(SparseReduction& out);

 private:
  SparseVector left_, difference_, merged_;
  Buffer<std::uint32_t> common_;
};

/// Hands back what the rounding of partial sums left behind at the entries of the sum: out.returned <- out.remainder,
/// which is empty then. Does nothing if it is empty.
void return_remainder(SparseReduction& out);

/// Lets momentum stop only where something left: out.applied <- the indices of `decoded` whose values are not 0, and
/// which are among the contributed ones.
void mask_nonzero(const ListView& decoded, SparseReduction& out);

}  // namespace dragonn::comm

// SPDX-License-Identifier: MIT
#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

void SparseReduction::reset(int ranks) {
  sum.clear();
  dense_sum.resize_discard(0);
  is_dense = false;
  contributed.resize_discard(0);
  contributed_all = false;
  applied.resize_discard(0);
  is_partly_applied = false;
  returned.clear();
  selected_counts.assign(static_cast<std::size_t>(ranks), 0);
  owned_counts.clear();
  non_finite = false;
  lost_mass = std::numeric_limits<double>::quiet_NaN();
  decode_seconds = 0;
}

}  // namespace dragonn::comm

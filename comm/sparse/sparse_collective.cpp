// SPDX-License-Identifier: MIT
#include "comm/sparse/sparse_collective.h"

namespace dragonn::comm {

void SparseReduction::reset(int ranks) {
  sum.clear();
  dense_sum.resize_discard(0);
  is_dense = false;
  contributed.resize_discard(0);
  contributed_all = false;
  returned.clear();
  selected_counts.assign(static_cast<std::size_t>(ranks), 0);
  non_finite = false;
  decode_seconds = 0;
}

}  // namespace dragonn::comm

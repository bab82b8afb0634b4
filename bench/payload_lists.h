// SPDX-License-Identifier: MIT
/// PayloadLists: selections of a large gradient, drawn as lists without the gradient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/sparse/sparse_collective.h"
#include "core/sparse_vector.h"

namespace dragonn::bench {

struct PayloadRules {
  std::uint64_t seed = 1;
  std::size_t numel = 0;
  std::size_t k = 0;  ///< entries of a rank, at most numel; of all ranks together if they share the bucket
  SelectionTraits traits = {};
};

/// Draws selections like the k largest of independent values. Places are uniform, one in each of k equal parts of the
/// bucket; magnitudes are 1 plus an exponential draw; signs are even. If a selection is partitioned, each rank draws in
/// its part of the bucket; if it is the leader's, the other ranks have none; shared indices are the same on all ranks.
class PayloadLists {
 public:
  explicit PayloadLists(const PayloadRules& rules) : rules_(rules) {}

  /// Draws a selection in O(k). It is the same for the same seed, step and rank.
  void draw(std::uint64_t step, int rank, int world_size, SparseVector& selected) const;

 private:
  PayloadRules rules_;
};

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// BucketSum: what an exchange makes of one bucket's gradients.
#pragma once

#include <cstddef>

#include "core/sparse_vector.h"
#include "core/view.h"

namespace dragonn::exchange {

/// The sum over ranks of one bucket, in the gradient's memory: dense or sparse.
struct BucketSum {
  std::size_t offset = 0;  ///< in the arena
  std::size_t size = 0;
  /// The memory has applied the momentum already.
  bool momentum_applied = false;
  /// The gradients contain the learning rate already (lr-folded accumulator).
  bool learning_rate_applied = false;
  /// The mean is the sum over this: the number of ranks, or 1 if each entry is divided by its senders already.
  float divisor = 1;
  View<const float> dense = {};           ///< [size], if there are no entries
  const SparseVector* entries = nullptr;  ///< ascending; null: the sum is dense

  View<const float> values() const { return entries != nullptr ? entries->values.view() : dense; }
};

}  // namespace dragonn::exchange

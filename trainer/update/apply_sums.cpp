// SPDX-License-Identifier: MIT
#include "trainer/update/apply_sums.h"

#include <cmath>

#include "optim/clip.h"

namespace dragonn::trainer {

double mean_gradient_norm(std::span<const exchange::BucketSum> sums, int ranks) {
  double squares = 0;
  for (const exchange::BucketSum& sum : sums) squares += optim::squared_norm(sum.values());
  return std::sqrt(squares) / ranks;
}

void apply_sums(std::span<const exchange::BucketSum> sums, float scale, optim::Optimizer& optimizer) {
  for (const exchange::BucketSum& sum : sums) {
    const optim::Slice slice{sum.offset, sum.size, sum.momentum_applied, sum.learning_rate_applied};
    if (sum.entries != nullptr) {
      optimizer.update(slice, *sum.entries, scale);
    } else {
      optimizer.update(slice, sum.dense, scale);
    }
  }
}

}  // namespace dragonn::trainer

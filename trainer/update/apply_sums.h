// SPDX-License-Identifier: MIT
/// Applies the sums of an exchange to the parameters.
#pragma once

#include <span>

#include "exchange/gradient_exchange.h"
#include "optim/optimizer.h"

namespace dragonn::trainer {

/// Returns the Euclidean norm of the mean gradient, over all sums, in double: for clipping the aggregated gradient.
double mean_gradient_norm(std::span<const exchange::BucketSum> sums, int ranks);

/// Feeds the sums times `scale` to the optimizer, which has begun its step.
void apply_sums(std::span<const exchange::BucketSum> sums, float scale, optim::Optimizer& optimizer);

}  // namespace dragonn::trainer

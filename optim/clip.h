// SPDX-License-Identifier: MIT
/// Gradient clipping by the Euclidean norm: of one rank's gradient, or of the exchanged one.
#pragma once

#include "core/view.h"

namespace dragonn::optim {

/// Returns the sum of the squares, in double. The order depends on nothing but the size and the type of device. O(n).
double squared_norm(View<const float> gradient);

/// Returns the factor that scales a gradient of norm `norm` down to `limit`: min(1, limit / (norm + 1e-6)).
/// It is 1 for a norm that is not finite: the finite check of the exchange must see such a gradient as it is.
/// Given the norm of the mean over the ranks, it clips the aggregated gradient, and all ranks get the same factor.
/// @param limit above 0.
float clip_scale(double norm, double limit);
/// Returns the factor for one rank's gradient before it enters any residual: min(1, (limit / sqrt(P)) / (norm + 1e-6)).
/// Norms of P independent gradients add up to sqrt(P) times one, so the sum stays below `limit` as a whole.
/// Source: Deep Gradient Compression (arXiv:1712.01887), section 3.2.
float local_clip_scale(double norm, double limit, int world_size);

}  // namespace dragonn::optim

// SPDX-License-Identifier: MIT
/// Normal quantile: the quantile of the standard normal distribution.
#pragma once

namespace dragonn::compress {

/// Returns the x that a standard normal variable exceeds with this probability: the inverse of erfc(x / sqrt(2)) / 2,
/// by bisection to the last bit. @param probability in (0, 0.5]; the result is in [0, 39).
double normal_upper_quantile(double probability);

}  // namespace dragonn::compress

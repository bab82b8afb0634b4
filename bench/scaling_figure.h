// SPDX-License-Identifier: MIT
/// Scaling figure: the seconds of `dragonn-bench collective` over the number of ranks.
#pragma once

#include <string>

#include "bench/rows.h"

namespace dragonn::bench {

/// Returns an SVG file with two logarithmic axes and a line for each collective, algorithm and density. If there are
/// phases, it is the mean over a period. Thin lines are the formulas.
std::string scaling_figure(const Rows& rows, const std::string& title);

}  // namespace dragonn::bench

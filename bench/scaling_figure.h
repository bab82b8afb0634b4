// SPDX-License-Identifier: MIT
/// Figure of `dragonn-bench collective`: seconds against the number of ranks.
#pragma once

#include <string>

#include "bench/rows.h"

namespace dragonn::bench {

/// An SVG file, both axes logarithmic: a line for each collective, algorithm and density, of the mean over a period
/// where there are phases. Thin lines are the formulas.
std::string scaling_figure(const Rows& rows, const std::string& title);

}  // namespace dragonn::bench

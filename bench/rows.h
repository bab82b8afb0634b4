// SPDX-License-Identifier: MIT
/// Rows: the measurements of a benchmark, written as JSON (or as a table: bench/table.h).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dragonn::bench {

/// One object per row, with keys in the order in which they were set. All rows of a benchmark have the same keys.
using Rows = std::vector<nlohmann::ordered_json>;

/// Writes one JSON array. `target` is a file's path, or "-" for the standard output. @throws SystemError if it cannot
/// be written.
void write_json(const Rows& rows, const std::string& target);

/// Returns the value at `share` in [0, 1] of the sorted values (0.5: the median); between two of them, the nearest.
double percentile(std::vector<double> values, double share);

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// Cells: the numbers of runs and groups by the names that tables and JSON give them (docs/formats.md).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "report/compare.h"
#include "report/statistics.h"

namespace dragonn::report {

/// A text, or a number that may be unknown.
using CellValue = std::variant<std::string, std::optional<double>>;

struct Cell {
  std::string column;
  CellValue value;
};

/// Returns what is known of one run of a group, the same columns for every run. Numbers are in base units (bytes,
/// seconds).
std::vector<Cell> run_cells(const Comparison& comparison, const Group& group, std::size_t run);

/// A number over the runs of a group.
struct SpreadCell {
  std::string column;
  std::optional<Spread> spread;
};

/// Holds the numbers of a group.
struct GroupCells {
  std::vector<Cell> shared;         ///< what its runs share: method, workers, clock and network, target
  std::vector<SpreadCell> numbers;  ///< all other numbers. Those of arrivals are unknown unless all runs arrived
};
GroupCells group_cells(const Comparison& comparison, const Group& group);

}  // namespace dragonn::report

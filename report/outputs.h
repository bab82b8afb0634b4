// SPDX-License-Identifier: MIT
/// The comparison as a page, as tables, as a figure and as a few lines of text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "report/compare.h"
#include "report/drawing.h"
#include "report/fit.h"
#include "report/statistics.h"

namespace dragonn::report {

/// Returns HTML with style, data, drawing code and chart library inside. `title` is plain text; `fits` may be empty.
std::string html_page(const Comparison& comparison, const std::vector<Fit>& fits, const std::string& title);

/// Returns one row per run, after a header; docs/formats.md explains the columns. Numbers are in base units (bytes,
/// seconds); unknown values are empty.
std::string runs_csv(const Comparison& comparison);

/// Returns one row per group, after a header: mean, lowest and highest of every number over its runs.
std::string groups_csv(const Comparison& comparison);

/// Returns a JSON array with an object for each group, and after it one for each of its runs; docs/formats.md explains
/// the keys. Unknown values are null.
std::string comparison_json(const Comparison& comparison);

/// Returns one row per step line and evaluation of every run: run, kind, step, epoch, seconds, bytes, loss, metric,
/// densities, ...
std::string curves_csv(const Comparison& comparison);

/// Returns the style of each group: the dense runs are neutral, the others take the palette in their order. The page
/// uses the same.
std::vector<Style> group_styles(const Comparison& comparison);

/// Returns a figure of two panels and a legend. If runs log their time on an ideal network, it shows the metric over
/// time on the described and on the ideal network, with the times to target below. Otherwise it shows the metric and
/// the training loss (a running mean) over epochs. Lines and bands are means and ranges over the seeds of a group. Text
/// takes the document's font; the background is white, so that the figure can be read on any page.
std::string svg_figure(const Comparison& comparison, const std::string& title);

inline constexpr std::size_t kTerminalColumns = 100;

/// Returns a table of the groups and a sentence on the measurement; no line is wider than kTerminalColumns.
std::string terminal_summary(const Comparison& comparison);

/// Returns "Target: 0.9 of dense's final accuracy ...; 4 workers; virtual time: modelled network ...".
std::string measured_text(const Comparison& comparison);

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

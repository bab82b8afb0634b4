// SPDX-License-Identifier: MIT
/// The comparison as a page, as tables, as a figure and as a few lines of text.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/compare.h"
#include "report/drawing.h"

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

/// Returns the page with {{marks}}, which is called "page", and the texts of the marks from report/page and the chart
/// library. The build writes it (report/embed.cmake).
std::map<std::string, std::string_view> page_parts();

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// Figure: the curves of all runs as one small SVG file, for documents.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"
#include "report/drawing.h"

namespace dragonn::report {

/// Returns the style of each group: the dense runs are neutral, the others take the palette in their order. The page
/// uses the same.
std::vector<Style> group_styles(const Comparison& comparison);

/// Returns a figure of two panels and a legend. If runs log their time on an ideal network, it shows the metric over
/// time on the described and on the ideal network, with the times to target below. Otherwise it shows the metric and
/// the training loss (a running mean) over epochs. Lines and bands are means and ranges over the seeds of a group. Text
/// takes the document's font; the background is white, so that the figure can be read on any page.
std::string svg_figure(const Comparison& comparison, const std::string& title);

}  // namespace dragonn::report

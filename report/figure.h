// SPDX-License-Identifier: MIT
/// Figure: the curves of all runs as one small SVG file, for documents.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"
#include "report/drawing.h"

namespace dragonn::report {

/// By group: the dense runs are neutral, the others take the palette in their order. The page has the same.
std::vector<Style> group_styles(const Comparison& comparison);

/// Two panels and a legend. Where runs tell their time on an ideal network: the metric against time on the described
/// and on the ideal network, with the times to target below. Else the metric and the training loss (a running mean)
/// against epochs. Means and bands over the seeds of a group. Text takes the document's font; the background is white,
/// so that the figure can be read on any page.
std::string svg_figure(const Comparison& comparison, const std::string& title);

}  // namespace dragonn::report

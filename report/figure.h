// SPDX-License-Identifier: MIT
/// Figure: the curves of all runs as one small SVG file, for documents.
#pragma once

#include <string>

#include "report/compare.h"

namespace dragonn::report {

/// Two panels against epochs: the metric at evaluations and the training loss as a running mean, and a legend. Dense is
/// drawn in grey; colours that come round again are dashed. Means where a group has several runs. Text takes the
/// document's font; the background is white, so that the figure can be read on any page.
std::string svg_figure(const Comparison& comparison, const std::string& title);

}  // namespace dragonn::report

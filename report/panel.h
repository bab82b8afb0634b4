// SPDX-License-Identifier: MIT
/// Panel: one chart of a figure, with axes, a line per group and the target.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/drawing.h"

namespace dragonn::report {

/// One line of a panel. `low` and `high` are a band around `ys`, or empty.
struct PanelLine {
  std::vector<double> xs, ys, low, high;
  bool has_markers = false;
};

struct Panel {
  std::string title, x_label;
  bool percent = false;            ///< values have a % sign
  std::vector<PanelLine> lines;    ///< in the order of the styles
  std::optional<double> target{};  ///< a horizontal line
  std::string target_label{};
};

/// The area inside the axes, in pixels. Labels stand left of and below it, the title above.
struct Frame {
  double left, top, width, height;
};

void draw_panel(Drawing& drawing, const Panel& panel, const std::vector<Style>& styles, const Frame& frame);

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
/// LineFigure: lines over one axis, as an SVG file with a legend.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dragonn::bench {

/// A figure of measured lines, each with a thin one beside it: its formula. The first and the last tick bound the axis
/// of y; the points bound that of x.
struct LineFigure {
  using Points = std::vector<std::pair<double, double>>;
  using Ticks = std::vector<std::pair<double, std::string>>;
  struct Line {
    std::string label;
    Points measured = {};  ///< ascending, as the formula's
    Points formula = {};
  };

  std::string title;
  std::string x_name;
  std::vector<Line> lines = {};
  Ticks x_ticks = {};
  Ticks y_ticks = {};  ///< ascending

  /// Returns the line with that label, a new one if there is none.
  Line& line(const std::string& label);
  /// Returns the SVG file.
  std::string draw() const;
};

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
/// Drawing: SVG elements, and panels of curves made of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dragonn::report {

/// The style of a line. `dash` is as in SVG, empty for solid. `marker` is a shape by Chart.js's name (circle, rect,
/// triangle, rectRot, crossRot, cross), or empty.
struct Style {
  std::string_view color, dash, marker;
};
/// The style of dense runs, with which others are compared: the only solid line.
inline constexpr Style kNeutral{"#59616d", "", "circle"};
inline constexpr Style kGrid{"#e3e6ea", "", ""};
inline constexpr Style kTargetLine{"#667080", "4 4", ""};
/// Attributes of small grey text.
inline constexpr std::string_view kSmall = " font-size=\"11\" fill=\"#667080\"";
inline constexpr std::string_view kHeading = " font-size=\"16\" font-weight=\"600\" fill=\"#1b1f24\"";

/// The number of colours before they repeat.
inline constexpr std::size_t kPaletteSize = 8;
/// Returns the style of the curve with this number. Colour, dash and marker repeat after different counts, so curves
/// can be told apart by each of them and by all together.
Style style_of(std::size_t number);

/// An SVG drawing. Coordinates are pixels, from the upper left corner.
class Drawing {
 public:
  /// @param anchor start, middle or end.  @param style attributes, with a leading blank.
  void text(double x, double y, std::string_view anchor, std::string_view text, std::string_view style = "");
  void line(double x1, double y1, double x2, double y2, const Style& style, double width);
  void curve(const std::vector<std::pair<double, double>>& points, const Style& style, double width = 1.6);
  /// Draws the shape of `style` around a point. @param size half its width.
  void marker(double x, double y, const Style& style, double size = 3.5);
  /// Fills the area between two curves in a light shade.
  void band(const std::vector<std::pair<double, double>>& low, const std::vector<std::pair<double, double>>& high,
            const Style& style);
  /// Returns the whole file. Text takes the document's font; the background is white, so that the figure can be read on
  /// any page. Screen readers read title and description; empty: none.
  std::string document(double width, double height, std::string_view title = "",
                       std::string_view description = "") const;

 private:
  std::string svg_;
};

/// The range of some numbers.
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
  /// Returns where a value lies between the lowest (0) and the highest (1).
  double place(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

}  // namespace dragonn::report

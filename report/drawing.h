// SPDX-License-Identifier: MIT
/// Drawing: lines and text of an SVG file, in the colours of the page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dragonn::report {

/// A stroke. `dash` as in SVG; empty: solid.
struct Style {
  std::string_view color, dash;
};
/// What others are compared with: dense runs.
inline constexpr Style kNeutral{"#59616d", ""};
inline constexpr Style kGrid{"#e3e6ea", ""};
/// Attributes of small grey text.
inline constexpr std::string_view kSmall = " font-size=\"11\" fill=\"#667080\"";
inline constexpr std::string_view kHeading = " font-size=\"16\" font-weight=\"600\" fill=\"#1b1f24\"";

/// Of the curve with this number. Colours that come round again are dashed.
Style style_of(std::size_t number);

/// Coordinates are pixels, from the upper left corner.
class Drawing {
 public:
  /// @param anchor start, middle or end.  @param style attributes, with a leading blank.
  void text(double x, double y, std::string_view anchor, std::string_view text, std::string_view style = "");
  void line(double x1, double y1, double x2, double y2, const Style& style, double width);
  void curve(const std::vector<std::pair<double, double>>& points, const Style& style, double width = 1.6);
  /// The whole file. Text takes the document's font; the background is white, so that the figure can be read on any
  /// page.
  std::string document(double width, double height) const;

 private:
  std::string svg_;
};

}  // namespace dragonn::report

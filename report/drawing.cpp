// SPDX-License-Identifier: MIT
#include "report/drawing.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "report/text.h"

namespace dragonn::report {
namespace {

// The page's colours (page/style.css), for light backgrounds.
constexpr std::array<std::string_view, 8> kColors{"#0072b2", "#d55e00", "#009e73", "#b8478f",
                                                  "#c98500", "#7c3aed", "#2aa3c9", "#8c564b"};
constexpr std::array<std::string_view, 3> kDashes{"", "7 3", "2 2"};

std::string stroke(const Style& style, double width) {
  return fmt::format(" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}", style.color, width,
                     style.dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", style.dash));
}

}  // namespace

Style style_of(std::size_t number) {
  return {kColors[number % kColors.size()], kDashes[std::min(number / kColors.size(), kDashes.size() - 1)]};
}

void Drawing::text(double x, double y, std::string_view anchor, std::string_view text, std::string_view style) {
  svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, style,
                      markup_escaped(text));
}

void Drawing::line(double x1, double y1, double x2, double y2, const Style& style, double width) {
  svg_ += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"{}/>\n", x1, y1, x2, y2, stroke(style, width));
}

void Drawing::curve(const std::vector<std::pair<double, double>>& points, const Style& style, double width) {
  if (points.empty()) return;
  svg_ += "<path d=\"";
  for (std::size_t i = 0; i < points.size(); ++i) {
    svg_ += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", points[i].first, points[i].second);
  }
  svg_ += fmt::format("\"{}/>\n", stroke(style, width));
}

std::string Drawing::document(double width, double height) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"system-ui, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n",
      width, height, svg_);
}

}  // namespace dragonn::report

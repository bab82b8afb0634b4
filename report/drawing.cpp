// SPDX-License-Identifier: MIT
#include "report/drawing.h"

#include <array>

#include <fmt/format.h>

#include "report/text.h"

namespace dragonn::report {
namespace {

// The page's colours (page/style.css), for light backgrounds.
constexpr std::array<std::string_view, kPaletteSize> kColors{"#0072b2", "#d55e00", "#009e73", "#b8478f",
                                                             "#c98500", "#7c3aed", "#2aa3c9", "#8c564b"};
constexpr std::array<std::string_view, 5> kDashes{"7 3", "2 2", "9 3 2 3", "14 4", "5 2 2 2 2 2"};
constexpr std::array<std::string_view, 6> kMarkers{"rect", "triangle", "rectRot", "crossRot", "cross", "circle"};

/// Returns a shape around the origin as an SVG path of size 1. Crosses are lines, the others areas.
std::string_view shape(std::string_view marker) {
  if (marker == "rect") return "M-.9-.9H.9V.9H-.9Z";
  if (marker == "triangle") return "M0-1.1L1.1 .9H-1.1Z";
  if (marker == "rectRot") return "M0-1.2L1.2 0L0 1.2L-1.2 0Z";
  if (marker == "crossRot") return "M-1-1L1 1M1-1L-1 1";
  if (marker == "cross") return "M0-1.2V1.2M-1.2 0H1.2";
  return "M-1 0A1 1 0 1 0 1 0A1 1 0 1 0-1 0Z";
}

std::string stroke(const Style& style, double width) {
  return fmt::format(" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}", style.color, width,
                     style.dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", style.dash));
}

/// Returns a path along the points.
std::string path(const std::vector<std::pair<double, double>>& points) {
  std::string text;
  for (const auto& [x, y] : points) text += fmt::format("{}{:.1f} {:.1f}", text.empty() ? "M" : "L", x, y);
  return text;
}

}  // namespace

Style style_of(std::size_t number) {
  return {kColors[number % kColors.size()], kDashes[number % kDashes.size()], kMarkers[number % kMarkers.size()]};
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
  svg_ += fmt::format("<path d=\"{}\"{}/>\n", path(points), stroke(style, width));
}

void Drawing::marker(double x, double y, const Style& style, double size) {
  if (style.marker.empty()) return;
  svg_ += fmt::format(
      "<path d=\"{}\" transform=\"translate({:.1f} {:.1f}) scale({:.2f})\" fill=\"{}\" stroke=\"{}\" "
      "stroke-width=\"{:.2f}\"/>\n",
      shape(style.marker), x, y, size, style.color, style.color, 1.6 / size);
}

void Drawing::band(const std::vector<std::pair<double, double>>& low,
                   const std::vector<std::pair<double, double>>& high, const Style& style) {
  if (low.empty()) return;
  std::vector<std::pair<double, double>> outline = low;
  outline.insert(outline.end(), high.rbegin(), high.rend());
  svg_ += fmt::format("<path d=\"{}Z\" fill=\"{}\" fill-opacity=\"0.15\"/>\n", path(outline), style.color);
}

std::string Drawing::document(double width, double height, std::string_view title, std::string_view description) const {
  std::string head;
  if (!title.empty()) head += fmt::format("<title>{}</title>\n", markup_escaped(title));
  if (!description.empty()) head += fmt::format("<desc>{}</desc>\n", markup_escaped(description));
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\" font-family=\"system-ui, sans-serif\">\n{2}<rect width=\"100%\" height=\"100%\" "
      "fill=\"#ffffff\"/>\n{3}</svg>\n",
      width, height, head, svg_);
}

}  // namespace dragonn::report

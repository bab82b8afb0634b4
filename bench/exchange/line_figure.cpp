// SPDX-License-Identifier: MIT
#include "bench/exchange/line_figure.h"

#include <algorithm>
#include <tuple>

#include "report/drawing.h"

namespace dragonn::bench {
namespace {

constexpr double kLeft = 70, kTop = 64, kWidth = 460, kHeight = 320, kBottom = 50, kLegend = 250, kLegendLine = 18;

}  // namespace

LineFigure::Line& LineFigure::line(const std::string& label) {
  const auto found = std::ranges::find(lines, label, &Line::label);
  return found != lines.end() ? *found : lines.emplace_back(Line{label});
}

std::string LineFigure::draw() const {
  report::Range xs, ys;
  for (const Line& line : lines) {
    for (const Points* points : {&line.measured, &line.formula})
      for (const auto& [x, y] : *points) xs.include(x);
  }
  for (const auto& [y, label] : y_ticks) ys.include(y);
  const auto across = [&](double x) { return kLeft + kWidth * xs.place(x); };
  const auto up = [&](double y) { return kTop + kHeight * (1 - ys.place(y)); };

  report::Drawing drawing;
  drawing.text(kLeft, 26, "start", title, report::kHeading);
  for (const auto& [y, label] : y_ticks) {
    drawing.line(kLeft, up(y), kLeft + kWidth, up(y), report::kGrid, 1);
    drawing.text(kLeft - 8, up(y) + 4, "end", label, report::kSmall);
  }
  for (const auto& [x, label] : x_ticks) drawing.text(across(x), kTop + kHeight + 18, "middle", label, report::kSmall);
  drawing.text(kLeft + kWidth / 2, kTop + kHeight + 36, "middle", x_name, report::kSmall);
  double y = kTop + 4;
  for (std::size_t number = 0; number < lines.size(); ++number, y += kLegendLine) {
    const report::Style style = report::style_of(number);
    const auto draw_curve = [&](Points points, double width) {
      for (auto& [px, py] : points) std::tie(px, py) = std::pair(across(px), up(py));
      drawing.curve(points, style, width);
    };
    draw_curve(lines[number].formula, 0.7);
    draw_curve(lines[number].measured, 2);
    const double left = kLeft + kWidth + 24;
    drawing.line(left, y, left + 26, y, style, 2.5);
    drawing.text(left + 33, y + 4, "start", lines[number].label, " font-size=\"12\" fill=\"#1b1f24\"");
  }
  return drawing.document(kLeft + kWidth + kLegend, kTop + kHeight + kBottom);
}

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
#include "report/panel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace dragonn::report {
namespace {

constexpr std::size_t kMarkersOfLine = 12;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();

  void include(const std::vector<double>& values) {
    for (double value : values) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  bool empty() const { return low > high; }
  double place(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

/// Returns a step of 1, 2 or 5 times a power of ten that divides the range into about `count`.
double tick_step(const Range& range, double count) {
  const double rough = std::max((range.high - range.low) / count, 1e-9);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  return step;
}

/// Extends a range to whole steps.
void widen(Range& range, double step) {
  range.low = std::floor(range.low / step) * step;
  range.high = std::ceil(range.high / step) * step;
}

/// Returns the multiples of `step` in a range.
std::vector<double> ticks(const Range& range, double step) {
  std::vector<double> result;
  for (double number = std::ceil(range.low / step - 1e-9); number <= std::floor(range.high / step + 1e-9); ++number) {
    result.push_back(number * step + 0.0);  // no -0
  }
  return result;
}

/// Converts data to pixels.
struct Scales {
  Frame frame;
  Range xs, ys;

  double x(double value) const { return frame.left + frame.width * xs.place(value); }
  double y(double value) const { return frame.top + frame.height * (1 - ys.place(value)); }
  std::vector<std::pair<double, double>> points(const std::vector<double>& x_values,
                                                const std::vector<double>& y_values) const {
    std::vector<std::pair<double, double>> result;
    for (std::size_t i = 0; i < x_values.size(); ++i) result.emplace_back(x(x_values[i]), y(y_values[i]));
    return result;
  }
};

void draw_axes(Drawing& drawing, const Panel& panel, const Scales& scales, double x_step, double y_step) {
  const Frame& frame = scales.frame;
  for (double tick : ticks(scales.ys, y_step)) {
    drawing.line(frame.left, scales.y(tick), frame.left + frame.width, scales.y(tick), kGrid, 1);
    drawing.text(frame.left - 6, scales.y(tick) + 4, "end", fmt::format("{:.4g}{}", tick, panel.percent ? " %" : ""),
                 kSmall);
  }
  for (double tick : ticks(scales.xs, x_step)) {
    drawing.text(scales.x(tick), frame.top + frame.height + 18, "middle", fmt::format("{:.4g}", tick), kSmall);
  }
  drawing.text(frame.left + frame.width / 2, frame.top + frame.height + 36, "middle", panel.x_label, kSmall);
}

void draw_line(Drawing& drawing, const PanelLine& line, const Style& style, const Scales& scales) {
  if (!line.low.empty()) {
    drawing.band(scales.points(line.xs, line.low), scales.points(line.xs, line.high), style);
  }
  const auto points = scales.points(line.xs, line.ys);
  drawing.curve(points, style);
  if (!line.has_markers) return;
  const std::size_t stride = (points.size() + kMarkersOfLine - 1) / kMarkersOfLine;
  for (std::size_t i = 0; i < points.size(); i += stride) {
    drawing.marker(points[i].first, points[i].second, style);
  }
}

}  // namespace

void draw_panel(Drawing& drawing, const Panel& panel, const std::vector<Style>& styles, const Frame& frame) {
  drawing.text(frame.left, frame.top - 12, "start", panel.title,
               " font-size=\"13\" font-weight=\"600\" fill=\"#1b1f24\"");
  Scales scales{frame, {0, 0}, {}};
  for (const PanelLine& line : panel.lines) {
    scales.xs.include(line.xs);
    for (const auto* values : {&line.ys, &line.low, &line.high}) scales.ys.include(*values);
  }
  if (scales.ys.empty()) return;
  if (panel.target) scales.ys.include({*panel.target});
  const double x_step = tick_step(scales.xs, 6), y_step = tick_step(scales.ys, 6);
  widen(scales.ys, y_step);
  draw_axes(drawing, panel, scales, x_step, y_step);
  if (panel.target) {
    const double y = scales.y(*panel.target);
    drawing.line(frame.left, y, frame.left + frame.width, y, kTargetLine, 1.2);
    drawing.text(frame.left + frame.width - 4, y + 13, "end", panel.target_label, kSmall);
  }
  for (std::size_t i = 0; i < panel.lines.size(); ++i) draw_line(drawing, panel.lines[i], styles[i], scales);
}

}  // namespace dragonn::report

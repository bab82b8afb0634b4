// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "report/curves.h"
#include "report/drawing.h"
#include "report/outputs.h"
#include "report/text.h"

namespace dragonn::report {
namespace {

// Pixels. Beside the panels the legend has its own column, below them its own rows: many runs do not cover the curves.
constexpr double kPanelWidth = 380, kPanelHeight = 290, kPanelGap = 68, kLeft = 56, kTop = 64, kBottom = 46;
constexpr double kLegendLine = 19, kLegendText = 36, kLetterWidth = 7.5;
constexpr double kWidth = kLeft + 2 * kPanelWidth + kPanelGap + 16;
constexpr std::size_t kMarkersOfLine = 12;
constexpr double kTicks = 6;            ///< of an axis, about
constexpr std::size_t kColumns = 135;   ///< letters below both panels
constexpr double kLossSmoothing = 0.9;  ///< weight of the running mean
constexpr std::string_view kBody = " font-size=\"12.5\" fill=\"#1b1f24\"";

/// One line of a panel. `low` and `high` are a band around `ys`, or empty.
struct PanelLine {
  std::vector<double> xs, ys, low, high;
};

struct Panel {
  std::string title, x_label;
  bool percent = false;            ///< values have a % sign
  std::vector<PanelLine> lines;    ///< in the order of the styles
  std::optional<double> target{};  ///< a line across
  std::string target_label{};
};

/// Returns a step of 1, 2 or 5 times a power of ten that divides the range into about kTicks.
double tick_step(const Range& range) {
  const double rough = std::max((range.high - range.low) / kTicks, 1e-9);
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

/// Converts data to pixels of the panel whose axes begin at `left`. Labels stand left of and below it, the title above.
struct Scales {
  double left;
  Range xs, ys;

  double x(double value) const { return left + kPanelWidth * xs.place(value); }
  double y(double value) const { return kTop + kPanelHeight * (1 - ys.place(value)); }
  std::vector<std::pair<double, double>> points(const std::vector<double>& x_values,
                                                const std::vector<double>& y_values) const {
    std::vector<std::pair<double, double>> result;
    for (std::size_t i = 0; i < x_values.size(); ++i) result.emplace_back(x(x_values[i]), y(y_values[i]));
    return result;
  }
};

void draw_axes(Drawing& drawing, const Panel& panel, const Scales& scales, double x_step, double y_step) {
  const double left = scales.left;
  for (double tick : ticks(scales.ys, y_step)) {
    drawing.line(left, scales.y(tick), left + kPanelWidth, scales.y(tick), kGrid, 1);
    drawing.text(left - 6, scales.y(tick) + 4, "end", fmt::format("{:.4g}{}", tick, panel.percent ? " %" : ""), kSmall);
  }
  for (double tick : ticks(scales.xs, x_step)) {
    drawing.text(scales.x(tick), kTop + kPanelHeight + 18, "middle", fmt::format("{:.4g}", tick), kSmall);
  }
  drawing.text(left + kPanelWidth / 2, kTop + kPanelHeight + 36, "middle", panel.x_label, kSmall);
}

void draw_line(Drawing& drawing, const PanelLine& line, const Style& style, const Scales& scales) {
  if (!line.low.empty()) {
    drawing.band(scales.points(line.xs, line.low), scales.points(line.xs, line.high), style);
  }
  const auto points = scales.points(line.xs, line.ys);
  drawing.curve(points, style);
  const std::size_t stride = (points.size() + kMarkersOfLine - 1) / kMarkersOfLine;
  for (std::size_t i = 0; i < points.size(); i += stride) {
    drawing.marker(points[i].first, points[i].second, style);
  }
}

void draw_panel(Drawing& drawing, const Panel& panel, const std::vector<Style>& styles, double left) {
  drawing.text(left, kTop - 12, "start", panel.title, " font-size=\"13\" font-weight=\"600\" fill=\"#1b1f24\"");
  Scales scales{left, {0, 0}, {}};
  for (const PanelLine& line : panel.lines) {
    for (const double x : line.xs) scales.xs.include(x);
    for (const auto* values : {&line.ys, &line.low, &line.high})
      for (const double y : *values) scales.ys.include(y);
  }
  if (scales.ys.empty()) return;
  if (panel.target) scales.ys.include(*panel.target);
  const double x_step = tick_step(scales.xs), y_step = tick_step(scales.ys);
  widen(scales.ys, y_step);
  draw_axes(drawing, panel, scales, x_step, y_step);
  if (panel.target) {
    const double y = scales.y(*panel.target);
    drawing.line(left, y, left + kPanelWidth, y, kTargetLine, 1.2);
    drawing.text(left + kPanelWidth - 4, y + 13, "end", panel.target_label, kSmall);
  }
  for (std::size_t i = 0; i < panel.lines.size(); ++i) draw_line(drawing, panel.lines[i], styles[i], scales);
}

/// Returns the exponential moving average, corrected for its start at zero.
std::vector<double> smoothed(const std::vector<double>& values) {
  std::vector<double> result;
  double sum = 0, norm = 0;
  for (double value : values) {
    sum = kLossSmoothing * sum + (1 - kLossSmoothing) * value;
    norm = kLossSmoothing * norm + (1 - kLossSmoothing);
    result.push_back(sum / norm);
  }
  return result;
}

std::vector<double> multiplied(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

/// Returns the metric at evaluations over `x` (in units of `unit`).
PanelLine metric_line(const Group& group, const Metric& metric, std::vector<double> Curve::*x, double unit) {
  const Curve curve = metric_curve(group, metric);
  const double scale = metric.is_share ? 100 : 1;
  PanelLine line{multiplied(curve.*x, 1 / unit), multiplied(curve.mean, scale), {}, {}};
  if (line.xs.empty()) line.ys.clear();  // a run without ideal times
  if (group.runs.size() > 1 && !line.xs.empty()) {
    line.low = multiplied(curve.low, scale);
    line.high = multiplied(curve.high, scale);
  }
  return line;
}

std::array<Panel, 2> epoch_panels(const Comparison& comparison) {
  const Metric& metric = comparison.metric;
  Panel quality{metric.label, "epochs", metric.is_share, {}};
  Panel loss{fmt::format("Training loss, running mean (weight {})", kLossSmoothing), "epochs", false, {}};
  for (const Group& group : comparison.groups) {
    quality.lines.push_back(metric_line(group, metric, &Curve::epoch, 1));
    const Curve curve = loss_curve(group);
    loss.lines.push_back({curve.epoch, smoothed(curve.mean), {}, {}});
  }
  return {std::move(quality), std::move(loss)};
}

/// Returns a panel of the metric over one of the clocks.
Panel clock_panel(const Comparison& comparison, std::string title, const std::string& clock,
                  std::vector<double> Curve::*time) {
  double longest = 0;
  for (const Group& group : comparison.groups) {
    const Curve curve = metric_curve(group, comparison.metric);
    if (!(curve.*time).empty()) longest = std::max(longest, (curve.*time).back());
  }
  const auto [unit, name] = longest < 180        ? std::pair(1, "s")
                            : longest < 3 * 3600 ? std::pair(60, "min")
                                                 : std::pair(3600, "h");
  Panel panel{std::move(title), fmt::format("{} ({})", clock, name), comparison.metric.is_share, {}};
  for (const Group& group : comparison.groups) {
    panel.lines.push_back(metric_line(group, comparison.metric, time, unit));
  }
  if (comparison.target) {
    panel.target = *comparison.target * (comparison.metric.is_share ? 100 : 1);
    panel.target_label = fmt::format("target {:.4g}{}", *panel.target, comparison.metric.is_share ? " %" : "");
  }
  return panel;
}

std::array<Panel, 2> clock_panels(const Comparison& comparison) {
  const std::string described = described_network_name(comparison), label = comparison.metric.label;
  return {clock_panel(comparison, fmt::format("{} {}: the described network", label, described),
                      fmt::format("{} {}", clock_name(comparison), described), &Curve::time),
          clock_panel(comparison, label + " on an ideal network: it takes no time", "virtual time on an ideal network",
                      &Curve::time_ideal)};
}

void draw_legend_line(Drawing& drawing, double left, double y, const Style& style, const std::string& label) {
  drawing.line(left, y, left + 28, y, style, 2);
  drawing.marker(left + 14, y, style);
  drawing.text(left + kLegendText, y + 4, "start", label, kBody);
}

/// Returns the text on a group's time to target relative to dense's, and its SVG attributes.
std::pair<std::string, std::string_view> time_text(const std::optional<Spread>& time,
                                                   const std::optional<Spread>& dense, bool is_dense) {
  constexpr std::string_view kSooner = " font-size=\"12.5\" font-weight=\"600\" fill=\"#00664a\"",
                             kLater = " font-size=\"12.5\" font-weight=\"600\" fill=\"#a13d00\"";
  if (!time) return {"target not reached", kBody};
  const std::string text = seconds_text(time->mean) + " to target";
  if (is_dense || !dense || dense->mean <= 0 || time->mean <= 0) return {text, kBody};
  const double factor = dense->mean / time->mean;
  const std::string ratio = ratio_text(factor >= 1 ? factor : 1 / factor);
  if (ratio == ratio_text(1)) return {text + ", as dense", kBody};
  if (factor >= 1) return {fmt::format("{}, {} sooner", text, ratio), kSooner};
  return {fmt::format("{}, {} later", text, ratio), kLater};
}

/// Draws a row per group below the panels: its name, and below each panel the time to target by that clock; then the
/// text on the measurement. Returns the figure's height.
double draw_legend_below(Drawing& drawing, const Comparison& comparison, const std::vector<Style>& styles) {
  const Group* const dense = comparison.dense_group();
  double y = kTop + kPanelHeight + kBottom + 22;
  for (std::size_t i = 0; i < comparison.groups.size(); ++i, y += kLegendLine) {
    const Group& group = comparison.groups[i];
    const auto draw_cell = [&](double right, auto number) {
      const auto of_dense = dense == nullptr ? std::nullopt : dense->spread_of(number);
      const auto [text, look] = time_text(group.spread_of(number), of_dense, &group == dense);
      drawing.text(right, y + 4, "end", text, look);
    };
    draw_legend_line(drawing, kLeft, y, styles[i], group.label);
    draw_cell(kLeft + kPanelWidth, &Reached::time);
    draw_cell(kWidth - 16, &Reached::time_ideal);
  }
  const bool has_bands =
      std::ranges::any_of(comparison.groups, [](const Group& group) { return group.runs.size() > 1; });
  const std::string bands =
      has_bands ? " Lines are means over seeds, bands the range from the lowest to the highest." : "";
  for (const std::string& line : wrapped(measured_text(comparison) + bands, kColumns)) {
    drawing.text(kLeft, y + 12, "start", line, kSmall);
    y += 15;
  }
  return y + 16;
}

/// Draws the legend beside the panels. Returns the figure's width.
double draw_legend_beside(Drawing& drawing, const Comparison& comparison, const std::vector<Style>& styles) {
  const double left = kWidth + 8;
  double y = kTop + 4;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < comparison.groups.size(); ++i, y += kLegendLine) {
    draw_legend_line(drawing, left, y, styles[i], comparison.groups[i].label);
    longest = std::max(longest, comparison.groups[i].label.size());
  }
  return left + kLegendText + kLetterWidth * static_cast<double>(longest);
}

/// Describes the figure in words, with the numbers that the terminal shows.
std::string description(const Comparison& comparison, const std::array<Panel, 2>& panels) {
  std::string text = fmt::format("Two line charts: {} against {}; {} against {}. ", panels[0].title, panels[0].x_label,
                                 panels[1].title, panels[1].x_label);
  for (const Group& group : comparison.groups) {
    const auto value = group.spread_of(&RunResult::final_metric);
    if (!value) continue;
    const bool share = comparison.metric.is_share;
    text += fmt::format("{}: {:.4g}{} at the end. ", group.label, share ? 100 * value->mean : value->mean,
                        share ? " %" : "");
  }
  return text + measured_text(comparison);
}

}  // namespace

std::vector<Style> group_styles(const Comparison& comparison) {
  std::vector<Style> result;
  std::size_t next = 0;
  for (const Group& group : comparison.groups) result.push_back(group.is_dense ? kNeutral : style_of(next++));
  return result;
}

std::string svg_figure(const Comparison& comparison, const std::string& title) {
  const std::vector<Style> styles = group_styles(comparison);
  const bool has_clocks = has_ideal_times(comparison);
  const std::array<Panel, 2> panels = has_clocks ? clock_panels(comparison) : epoch_panels(comparison);
  Drawing drawing;
  drawing.text(kLeft, 26, "start", title, kHeading);
  double left = kLeft;
  for (const Panel& panel : panels) {
    draw_panel(drawing, panel, styles, left);
    left += kPanelWidth + kPanelGap;
  }
  double width = kWidth, height = kTop + kPanelHeight + kBottom;
  if (has_clocks) {
    height = draw_legend_below(drawing, comparison, styles);
  } else {
    width = draw_legend_beside(drawing, comparison, styles);
    height = std::max(height, kTop + kLegendLine * static_cast<double>(comparison.groups.size() + 1));
  }
  return drawing.document(width, height, title, description(comparison, panels));
}

}  // namespace dragonn::report

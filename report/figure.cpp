// SPDX-License-Identifier: MIT
#include "report/figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "report/curves.h"
#include "report/drawing.h"

namespace dragonn::report {
namespace {

// Pixels. The legend has its own column, so that many runs do not cover the curves.
constexpr double kPanelWidth = 400, kPanelHeight = 300, kPanelGap = 60, kLeft = 60, kTop = 64, kBottom = 46;
constexpr double kLegendLine = 17, kLegendText = 33, kLetterWidth = 7.5;
constexpr double kLossSmoothing = 0.9;  ///< weight of the running mean

/// By group: the dense runs are neutral, the others take the palette in their order.
std::vector<Style> styles(const Comparison& comparison) {
  std::vector<Style> result;
  std::size_t next = 0;
  for (const Group& group : comparison.groups) {
    if (group.is_dense) {
      result.push_back(kNeutral);
    } else {
      result.push_back(style_of(next++));
    }
  }
  return result;
}

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

/// Steps of 1, 2 or 5 times a power of ten, about `count` of them; the range grows to whole steps.
double tick_step(Range& range, double count) {
  const double rough = std::max((range.high - range.low) / count, 1e-9);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  range.low = std::floor(range.low / step) * step;
  range.high = std::ceil(range.high / step) * step;
  return step;
}

/// The multiples of `step` in a range whose ends are multiples.
std::vector<double> ticks(const Range& range, double step) {
  std::vector<double> result;
  for (double number = std::round(range.low / step); number <= std::round(range.high / step); ++number) {
    result.push_back(number * step);
  }
  return result;
}

/// Exponential moving average without the bias of a zero start.
std::vector<double> smoothed(const std::vector<double>& values, double weight) {
  std::vector<double> result;
  double sum = 0, norm = 0;
  for (double value : values) {
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    result.push_back(sum / norm);
  }
  return result;
}

struct Panel {
  std::string title;
  bool percent = false;
  std::vector<Curve> curves;  ///< by group
};

void draw_panel(Drawing& drawing, const Panel& panel, const std::vector<Style>& styles, double left) {
  drawing.text(left, kTop - 12, "start", panel.title, " font-size=\"13\" fill=\"#1b1f24\"");
  Range xs{0, 0}, ys;
  for (const Curve& curve : panel.curves) {
    xs.include(curve.epoch);
    ys.include(curve.mean);
  }
  if (ys.empty()) return;
  const double x_step = tick_step(xs, 6), y_step = tick_step(ys, 6);
  const auto x_of = [&](double value) { return left + kPanelWidth * xs.place(value); };
  const auto y_of = [&](double value) { return kTop + kPanelHeight * (1 - ys.place(value)); };
  for (double tick : ticks(ys, y_step)) {
    drawing.line(left, y_of(tick), left + kPanelWidth, y_of(tick), kGrid, 1);
    drawing.text(left - 6, y_of(tick) + 4, "end", fmt::format("{:.4g}{}", tick, panel.percent ? " %" : ""), kSmall);
  }
  for (double tick : ticks(xs, x_step)) {
    drawing.text(x_of(tick), kTop + kPanelHeight + 18, "middle", fmt::format("{:.4g}", tick), kSmall);
  }
  drawing.text(left + kPanelWidth / 2, kTop + kPanelHeight + 36, "middle", "epochs", kSmall);
  for (std::size_t group = 0; group < panel.curves.size(); ++group) {
    const Curve& curve = panel.curves[group];
    std::vector<std::pair<double, double>> points;
    for (std::size_t i = 0; i < curve.epoch.size(); ++i) {
      points.emplace_back(x_of(curve.epoch[i]), y_of(curve.mean[i]));
    }
    drawing.curve(points, styles[group]);
  }
}

std::array<Panel, 2> panels(const Comparison& comparison) {
  Panel metric{comparison.metric.label, comparison.metric.is_share, {}};
  Panel loss{fmt::format("Training loss, running mean (weight {})", kLossSmoothing), false, {}};
  for (const Group& group : comparison.groups) {
    Curve curve = metric_curve(group, comparison.metric);
    if (metric.percent) {
      for (double& value : curve.mean) value *= 100;
    }
    metric.curves.push_back(std::move(curve));
    loss.curves.push_back(loss_curve(group));
    loss.curves.back().mean = smoothed(loss.curves.back().mean, kLossSmoothing);
  }
  return {std::move(metric), std::move(loss)};
}

}  // namespace

std::string svg_figure(const Comparison& comparison, const std::string& title) {
  const std::vector<Style> group_styles = styles(comparison);
  const double legend_left = kLeft + 2 * kPanelWidth + kPanelGap + 24;
  std::size_t longest = 0;
  for (const Group& group : comparison.groups) longest = std::max(longest, group.label.size());
  const double width = legend_left + kLegendText + kLetterWidth * static_cast<double>(longest);
  const double height =
      std::max(kTop + kPanelHeight + kBottom, kTop + kLegendLine * static_cast<double>(comparison.groups.size() + 1));
  Drawing drawing;
  drawing.text(kLeft, 26, "start", title, kHeading);
  double left = kLeft;
  for (const Panel& panel : panels(comparison)) {
    draw_panel(drawing, panel, group_styles, left);
    left += kPanelWidth + kPanelGap;
  }
  double y = kTop + 4;
  for (std::size_t group = 0; group < comparison.groups.size(); ++group, y += kLegendLine) {
    drawing.line(legend_left, y, legend_left + 26, y, group_styles[group], 2.5);
    drawing.text(legend_left + kLegendText, y + 4, "start", comparison.groups[group].label,
                 " font-size=\"12\" fill=\"#1b1f24\"");
  }
  return drawing.document(width, height);
}

}  // namespace dragonn::report

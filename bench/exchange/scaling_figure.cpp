// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/exchange/collective_rows.h"
#include "report/drawing.h"

namespace dragonn::bench {
namespace {

using report::Drawing;
using Points = std::vector<std::pair<double, double>>;  // ranks and seconds, by logarithm

constexpr double kLeft = 70, kTop = 64, kWidth = 460, kHeight = 320, kBottom = 50, kLegend = 250, kLegendLine = 18;

struct Line {
  std::string label;
  Points measured, formula;
};

/// Returns the label of a line's rows: "dense ring", "gtopk"; with the density if there are several.
std::string label_of(const nlohmann::ordered_json& row, bool name_density) {
  const std::string name = row["collective"];
  const std::string algorithm = row["algorithm"].is_string() ? row["algorithm"] : "";
  std::string label = fmt::format("{}{}{}", name, algorithm.empty() ? "" : " ", algorithm);
  if (name_density) label = fmt::format("{}, density {}", label, row["density"].get<double>());
  return label;
}

std::vector<Line> lines_of(const Rows& rows) {
  std::set<double> densities;
  for (const auto& row : rows) densities.insert(row["density"].get<double>());
  std::vector<Line> lines;
  for (const auto& row : rows) {
    if (row["phase"] == "reuse" || row["phase"] == "recompute") continue;
    const std::string label = label_of(row, densities.size() > 1);
    auto line = std::ranges::find(lines, label, &Line::label);
    if (line == lines.end()) line = lines.insert(line, Line{label, {}, {}});
    const double ranks = std::log2(row["ranks"].get<double>());
    const auto add = [&](Points& points, const char* key) {
      if (row[key].is_number() && row[key].get<double>() > 0) {
        points.emplace_back(ranks, std::log10(row[key].get<double>()));
      }
    };
    add(line->measured, "seconds");
    add(line->formula, "seconds_formula");
  }
  for (Line& line : lines) {
    std::ranges::sort(line.measured);
    std::ranges::sort(line.formula);
  }
  return lines;
}

void draw_axes(Drawing& drawing, const report::Range& xs, const report::Range& ys) {
  for (double power = ys.low; power <= ys.high; ++power) {
    const double y = kTop + kHeight * (1 - ys.place(power));
    drawing.line(kLeft, y, kLeft + kWidth, y, report::kGrid, 1);
    drawing.text(kLeft - 8, y + 4, "end", fmt::format("{:g} s", std::pow(10.0, power)), report::kSmall);
  }
  for (double power = std::ceil(xs.low); power <= xs.high; ++power) {
    const double x = kLeft + kWidth * xs.place(power);
    drawing.text(x, kTop + kHeight + 18, "middle", fmt::format("{:g}", std::exp2(power)), report::kSmall);
  }
  drawing.text(kLeft + kWidth / 2, kTop + kHeight + 36, "middle", "ranks", report::kSmall);
}

}  // namespace

std::string scaling_figure(const Rows& rows, const std::string& title) {
  const std::vector<Line> lines = lines_of(rows);
  report::Range xs, ys;
  for (const Line& line : lines) {
    for (const Points* points : {&line.measured, &line.formula}) {
      for (const auto& [x, y] : *points) {
        xs.include(x);
        ys.include(y);
      }
    }
  }
  ys = {std::floor(ys.low), std::ceil(ys.high)};
  Drawing drawing;
  drawing.text(kLeft, 26, "start", title, report::kHeading);
  draw_axes(drawing, xs, ys);
  double y = kTop + 4;
  for (std::size_t number = 0; number < lines.size(); ++number, y += kLegendLine) {
    const report::Style style = report::style_of(number);
    const auto draw = [&](Points points, double width) {
      for (auto& [px, py] : points) {
        px = kLeft + kWidth * xs.place(px);
        py = kTop + kHeight * (1 - ys.place(py));
      }
      drawing.curve(points, style, width);
    };
    draw(lines[number].formula, 0.7);
    draw(lines[number].measured, 2);
    const double left = kLeft + kWidth + 24;
    drawing.line(left, y, left + 26, y, style, 2.5);
    drawing.text(left + 33, y + 4, "start", lines[number].label, " font-size=\"12\" fill=\"#1b1f24\"");
  }
  return drawing.document(kLeft + kWidth + kLegend, kTop + kHeight + kBottom);
}

}  // namespace dragonn::bench

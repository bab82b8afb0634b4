// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <fmt/format.h>

#include "bench/exchange/exchange_measure.h"
#include "bench/exchange/line_figure.h"
#include "report/drawing.h"

namespace dragonn::bench {

std::string scaling_figure(const Rows& rows, const std::string& title) {
  std::set<double> densities;
  for (const auto& row : rows) densities.insert(row["density"].get<double>());
  LineFigure figure{.title = title, .x_name = "ranks"};
  report::Range xs, ys;  // powers of 2, and of 10
  for (const auto& row : rows) {
    if (row["phase"] == "reuse" || row["phase"] == "recompute") continue;
    std::string label = row["collective"];  // "dense ring", "gtopk"; with the density if there are several
    if (row["algorithm"].is_string()) label.append(" ").append(row["algorithm"].get<std::string>());
    if (densities.size() > 1) label += fmt::format(", density {}", row["density"].get<double>());
    LineFigure::Line& line = figure.line(label);
    const double ranks = std::log2(row["ranks"].get<double>());
    const auto add = [&](LineFigure::Points& points, const char* key) {
      if (!row[key].is_number() || row[key].get<double>() <= 0) return;
      points.emplace_back(ranks, std::log10(row[key].get<double>()));
      xs.include(ranks);
      ys.include(points.back().second);
    };
    add(line.measured, "seconds");
    add(line.formula, "seconds_formula");
  }
  for (LineFigure::Line& line : figure.lines) {
    std::ranges::sort(line.measured);
    std::ranges::sort(line.formula);
  }
  for (double power = std::ceil(xs.low); power <= xs.high; ++power)
    figure.x_ticks.emplace_back(power, fmt::format("{:g}", std::exp2(power)));
  for (double power = std::floor(ys.low); power <= std::ceil(ys.high); ++power)
    figure.y_ticks.emplace_back(power, fmt::format("{:g} s", std::pow(10.0, power)));
  return figure.draw();
}

}  // namespace dragonn::bench

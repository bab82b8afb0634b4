// SPDX-License-Identifier: MIT
#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/bandwidth.h"
#include "report/outputs.h"
#include "report/text.h"

namespace dragonn::report {
namespace {

constexpr std::string_view kGap = "  ";
constexpr const char* kNone = "-";

/// Drops whole characters from the end until "..." fits, too.
std::string shortened(std::string text, std::size_t columns) {
  if (width(text) <= columns) return text;
  while (!text.empty() && width(text) + 3 > columns) {
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
    if (!text.empty()) text.pop_back();
  }
  return text + "...";
}

/// Returns the text in lines, each of which ends with a line end.
std::string paragraph(const std::string& text) {
  return fmt::format("{}\n", fmt::join(wrapped(text, kTerminalColumns), "\n"));
}

std::string metric_text(const Metric& metric, double value) {
  return metric.is_share ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.4g}", value);
}

/// Returns "31.2 s (3.94x)": the time, and how many times sooner than dense it is (below 1: later).
std::string time_cell(const std::optional<Spread>& time, const std::optional<Spread>& dense, bool is_dense) {
  if (!time) return "not reached";
  if (is_dense || !dense || time->mean <= 0) return seconds_text(time->mean);
  return fmt::format("{} ({})", seconds_text(time->mean), ratio_text(dense->mean / time->mean));
}

/// Returns "21.4 kB (50x less)".
std::string bytes_cell(const std::optional<Spread>& bytes, const std::optional<Spread>& dense, bool is_dense) {
  if (!bytes) return kNone;
  if (is_dense || !dense || bytes->mean <= 0 || dense->mean <= 0) return bytes_text(bytes->mean);
  const double factor = dense->mean / bytes->mean;
  return fmt::format("{} ({} {})", bytes_text(bytes->mean), ratio_text(factor >= 1 ? factor : 1 / factor),
                     factor >= 1 ? "less" : "more");
}

struct Table {
  std::vector<std::vector<std::string>> rows;  ///< the first row is the header, the first cell of a row its name

  /// Returns the table. Names are shortened if a line would be too wide; numbers are aligned to the right.
  std::string text() const {
    std::vector<std::size_t> widths(rows.front().size(), 0);
    for (const auto& row : rows) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
    }
    std::size_t others = 0;
    for (std::size_t i = 1; i < widths.size(); ++i) others += kGap.size() + widths[i];
    widths[0] = std::min(widths[0], std::max<std::size_t>(8, kTerminalColumns - std::min(kTerminalColumns, others)));
    std::string result;
    for (const auto& row : rows) {
      std::string line = shortened(row[0], widths[0]);
      line.append(widths[0] - width(line), ' ');
      for (std::size_t i = 1; i < row.size(); ++i) {
        line.append(kGap.size() + widths[i] - width(row[i]), ' ').append(row[i]);
      }
      result += line + '\n';
    }
    return result;
  }
};

Table table_of(const Comparison& comparison) {
  const bool has_ideal = has_ideal_times(comparison);
  const auto network = shared_network(comparison);
  const bool has_bandwidth = network && network->gbps;
  std::vector<std::string> header{"run", "final",
                                  has_bandwidth ? "to target, " + bandwidth_text(*network->gbps) : "time to target"};
  if (has_ideal) header.insert(header.end(), {"ideal network"});
  header.push_back("sent per step");
  if (has_ideal) header.push_back("pays");
  Table table{{header}};
  const Group* dense = comparison.dense ? &comparison.groups[*comparison.dense] : nullptr;
  const auto of_dense = [&](auto number) { return dense == nullptr ? std::nullopt : number(*dense); };
  const auto add = [&](const Group& group, std::vector<std::string>& row, auto cell, auto number) {
    row.push_back(cell(number(group), of_dense(number), &group == dense));
  };
  for (const Group& group : comparison.groups) {
    const auto final_metric = group.spread_of(&RunResult::final_metric);
    std::vector<std::string> row{group.label,
                                 final_metric ? metric_text(comparison.metric, final_metric->mean) : kNone};
    add(group, row, time_cell, [](const Group& of) { return of.spread_to_target(&Reached::time); });
    if (has_ideal)
      add(group, row, time_cell, [](const Group& of) { return of.spread_to_target(&Reached::time_ideal); });
    add(group, row, bytes_cell, [](const Group& of) { return of.spread_of(&RunResult::bytes_per_step); });
    if (has_ideal) {
      const auto crossing = break_even(comparison, group);
      row.push_back(crossing ? crossing->text() : kNone);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Returns "Means over seeds; final: dense 75.00 % to 77.00 % (3 seeds), ..."; empty where every group has one run.
std::string ranges_text(const Comparison& comparison) {
  std::vector<std::string> ranges;
  for (const Group& group : comparison.groups) {
    const auto value = group.spread_of(&RunResult::final_metric);
    if (group.runs.size() < 2) continue;
    ranges.push_back(value ? fmt::format("{} {} to {} ({} seeds)", group.label,
                                         metric_text(comparison.metric, value->low),
                                         metric_text(comparison.metric, value->high), group.runs.size())
                           : fmt::format("{} ({} seeds)", group.label, group.runs.size()));
  }
  return ranges.empty() ? ""
                        : fmt::format("Means over seeds; final from lowest to highest: {}.", fmt::join(ranges, ", "));
}

/// Returns "4 workers", or the numbers that the runs have.
std::string workers_text(const Comparison& comparison) {
  std::set<double> numbers;
  for_each_run(comparison, [&](const Run& run) {
    if (run.summary && run.summary->world_size) numbers.insert(*run.summary->world_size);
  });
  if (numbers.empty()) return "";
  std::string text;
  for (double number : numbers) text += fmt::format("{}{}", text.empty() ? "" : ", ", number);
  return fmt::format("{} worker{}; ", text, text == "1" ? "" : "s");
}

}  // namespace

std::string measured_text(const Comparison& comparison) {
  std::string text = comparison.target
                         ? fmt::format("Target: {} of {} ({})", comparison.metric.label,
                                       metric_text(comparison.metric, *comparison.target), comparison.target_reason)
                         : fmt::format("No target: {}", comparison.target_reason);
  return fmt::format("{}; {}{}.", text, workers_text(comparison), clock_text(comparison));
}

std::string terminal_summary(const Comparison& comparison) {
  std::string text = table_of(comparison).text();
  if (const std::string ranges = ranges_text(comparison); !ranges.empty()) text += paragraph(ranges);
  text += paragraph(measured_text(comparison));
  if (comparison.dense && comparison.groups.size() > 1) {
    const std::string dense = comparison.groups[*comparison.dense].label;
    text +=
        paragraph(fmt::format("In brackets: {}'s time over the run's, and bytes against {}'s.{}", dense, dense,
                              has_ideal_times(comparison) ? " Pays: the bandwidths at which a run reaches the target "
                                                            "sooner, computed from counted bytes and compute time."
                                                          : ""));
  }
  return text;
}

}  // namespace dragonn::report

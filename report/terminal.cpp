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

constexpr const char* kNone = "-";

std::string paragraph(const std::vector<std::string>& lines) {
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}
std::string paragraph(const std::string& text) {
  return paragraph(wrapped(text, kTerminalColumns));
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

std::vector<std::string> table(const Comparison& comparison) {
  const bool has_ideal = has_ideal_times(comparison);
  const auto network = shared_network(comparison);
  const bool has_bandwidth = network && network->gbps;
  std::vector<std::vector<std::string>> rows{
      {"run", "final", has_bandwidth ? "to target, " + bandwidth_text(*network->gbps) : "time to target"}};
  if (has_ideal) rows[0].emplace_back("ideal network");
  rows[0].emplace_back("sent per step");
  if (has_ideal) rows[0].emplace_back("pays");
  const Group* const dense = comparison.dense_group();
  for (const Group& group : comparison.groups) {
    const auto final_metric = group.spread_of(&RunResult::final_metric);
    std::vector<std::string>& row = rows.emplace_back(
        std::vector{group.label, final_metric ? metric_text(comparison.metric, final_metric->mean) : kNone});
    const auto add = [&](auto cell, auto number) {
      row.push_back(
          cell(group.spread_of(number), dense != nullptr ? dense->spread_of(number) : std::nullopt, &group == dense));
    };
    add(time_cell, &Reached::time);
    if (has_ideal) add(time_cell, &Reached::time_ideal);
    add(bytes_cell, &RunResult::bytes_per_step);
    if (!has_ideal) continue;
    const auto crossing = break_even(comparison, group);
    row.push_back(crossing ? crossing->text() : kNone);
  }
  std::string alignment(rows[0].size(), '>');
  alignment[0] = '<';
  return table_lines(std::move(rows), alignment, kTerminalColumns);
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
  const std::string text = fmt::format("{}", fmt::join(numbers, ", "));
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
  std::string text = paragraph(table(comparison));
  if (const std::string ranges = ranges_text(comparison); !ranges.empty()) text += paragraph(ranges);
  text += paragraph(measured_text(comparison));
  if (comparison.dense && comparison.groups.size() > 1) {
    const std::string& dense = comparison.dense_group()->label;
    text +=
        paragraph(fmt::format("In brackets: {}'s time over the run's, and bytes against {}'s.{}", dense, dense,
                              has_ideal_times(comparison) ? " Pays: the bandwidths at which a run reaches the target "
                                                            "sooner, computed from counted bytes and compute time."
                                                          : ""));
  }
  return text;
}

}  // namespace dragonn::report

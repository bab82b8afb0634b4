// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/bandwidth.h"
#include "report/curves.h"
#include "report/outputs.h"
#include "report/statistics.h"

namespace dragonn::report {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

std::string cell_text(const CellValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  const auto number = std::get<std::optional<double>>(value);
  return number ? fmt::format("{}", *number) : "";
}

std::string header(const std::vector<Cell>& cells) {
  std::vector<std::string> columns;
  for (const Cell& cell : cells) columns.push_back(cell.column);
  return fmt::format("{}\n", fmt::join(columns, ","));
}

std::string row(const std::vector<Cell>& cells) {
  std::vector<std::string> texts;
  for (const Cell& cell : cells) texts.push_back(cell_text(cell.value));
  return fmt::format("{}\n", fmt::join(texts, ","));
}

std::optional<double> ratio(std::optional<double> a, std::optional<double> b) {
  return a && b && *b != 0 ? std::optional(*a / *b) : std::nullopt;
}

std::optional<double> product(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a * *b) : std::nullopt;
}

/// Returns one number of a struct that may be absent.
template <class Struct>
std::optional<double> of(const std::optional<Struct>& numbers, double Struct::*field) {
  return numbers ? std::optional((*numbers).*field) : std::nullopt;
}

/// The numbers of the dense runs that the others are compared with.
struct DenseMeans {
  explicit DenseMeans(const Comparison& comparison) {
    if (!comparison.dense) return;
    const Group& dense = comparison.groups[*comparison.dense];
    throughput = of(dense.spread_of(&RunResult::throughput), &Spread::mean);
    time = of(dense.spread_to_target(&Reached::time), &Spread::mean);
    time_ideal = of(dense.spread_to_target(&Reached::time_ideal), &Spread::mean);
  }

  std::optional<double> throughput, time, time_ideal;
};

/// Returns whether all runs of a group have the same in this column.
bool is_shared(const std::string& column, const Metric& metric) {
  static const std::vector<std::string> kColumns{
      "method", "workers", "backend", "clock", "network_gbps", "network_latency_us", "network_compute"};
  return std::ranges::count(kColumns, column) > 0 || column == "target_" + metric.key;
}

}  // namespace

std::vector<Cell> run_cells(const Comparison& comparison, const Group& group, std::size_t index) {
  const std::string& metric = comparison.metric.key;
  const DenseMeans dense(comparison);
  const Run& run = group.runs[index];
  const RunResult& result = group.results[index];
  const auto reached = [&](double Reached::*field) { return of(result.to_target, field); };
  const auto quality = estimation(std::span(&run, 1));
  const auto cost = select_cost(std::span(&run, 1));
  const auto network = run.network().value_or(Network{});
  const auto ideal = result.to_target ? result.to_target->time_ideal : std::nullopt;
  const auto crossing = break_even(comparison, group, time_model(run, result));
  return {{"run", run.name},
          {"group", group.label},
          {"method", run.setting("compression.method")},
          {"seed", run.setting("seed")},
          {"workers", run.summary ? run.summary->world_size : std::nullopt},
          {"backend", run.summary ? run.summary->backend : std::string()},
          {"final_" + metric, result.final_metric},
          {"best_" + metric, result.best_metric},
          {"best_epoch", result.best_epoch},
          {"final_train_loss", result.final_loss},
          {"target_" + metric, comparison.target},
          {"steps_to_target", reached(&Reached::step)},
          {"seconds_to_target", reached(&Reached::time)},
          {"bytes_to_target", reached(&Reached::bytes)},
          {"steps", result.steps},
          {"seconds", result.seconds},
          {"samples_per_second", result.throughput},
          {"bytes_per_step", result.bytes_per_step},
          {"bytes_total", result.bytes_total},
          {"messages_per_step", mean_of_steps(run, &StepPoint::messages)},
          {"density_mean", result.density},
          {"selected_over_k", of(quality, &Estimation::mean)},
          {"selected_over_k_ci90_low", of(quality, &Estimation::ci_low)},
          {"selected_over_k_ci90_high", of(quality, &Estimation::ci_high)},
          {"selected_over_k_p5", of(quality, &Estimation::p5)},
          {"selected_over_k_p95", of(quality, &Estimation::p95)},
          {"padding_overhead", mean_of_steps(run, &StepPoint::padding_overhead)},
          {"imbalance", mean_of_steps(run, &StepPoint::imbalance)},
          {"select_seconds", product(of(cost, &SelectCost::seconds), result.steps)},
          {"select_share", of(cost, &SelectCost::share)},
          {"throughput_over_dense", ratio(result.throughput, dense.throughput)},
          {"time_to_target_speedup_over_dense", ratio(dense.time, reached(&Reached::time))},
          {"clock", run.is_virtual() ? "virtual" : "wall"},
          {"network_gbps", network.gbps},
          {"network_latency_us", network.latency_us},
          {"network_compute", network.compute},
          {"ideal_seconds", result.seconds_ideal},
          {"ideal_seconds_to_target", ideal},
          {"ideal_time_to_target_speedup_over_dense", ratio(dense.time_ideal, ideal)},
          {"pays", crossing ? kPaysNames[static_cast<std::size_t>(crossing->pays)] : ""},
          {"break_even_gbps", crossing && crossing->gbps > 0 ? std::optional(crossing->gbps) : std::nullopt},
          {"bits_per_entry", result.bits_per_entry}};
}

GroupCells group_cells(const Comparison& comparison, const Group& group) {
  GroupCells cells;
  std::vector<std::vector<Cell>> runs;
  for (std::size_t i = 0; i < group.runs.size(); ++i) runs.push_back(run_cells(comparison, group, i));
  for (std::size_t column = 0; column < runs.front().size(); ++column) {
    const Cell& first = runs.front()[column];
    if (is_shared(first.column, comparison.metric)) cells.shared.push_back(first);
    if (is_shared(first.column, comparison.metric) || std::holds_alternative<std::string>(first.value)) continue;
    std::vector<std::optional<double>> values;
    for (const std::vector<Cell>& run : runs) values.push_back(std::get<std::optional<double>>(run[column].value));
    std::optional<Spread> numbers = spread(values);
    const bool is_arrival = first.column.find("to_target") != std::string::npos;
    if (is_arrival && numbers && numbers->count < values.size()) numbers.reset();
    cells.numbers.push_back({first.column, numbers});
  }
  return cells;
}

std::string runs_csv(const Comparison& comparison) {
  std::string text;
  for (const Group& group : comparison.groups) {
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      const std::vector<Cell> cells = run_cells(comparison, group, i);
      if (text.empty()) text = header(cells);
      text += row(cells);
    }
  }
  return text;
}

std::string groups_csv(const Comparison& comparison) {
  std::string text;
  for (const Group& group : comparison.groups) {
    const GroupCells known = group_cells(comparison, group);
    std::vector<Cell> cells{{"group", group.label}, {"runs", static_cast<double>(group.runs.size())}};
    cells.insert(cells.end(), known.shared.begin(), known.shared.end());
    for (const auto& [column, spread] : known.numbers) {
      cells.push_back({column + "_mean", of(spread, &Spread::mean)});
      cells.push_back({column + "_low", of(spread, &Spread::low)});
      cells.push_back({column + "_high", of(spread, &Spread::high)});
    }
    if (text.empty()) text = header(cells);
    text += row(cells);
  }
  return text;
}

std::string curves_csv(const Comparison& comparison) {
  const auto cells_of = [&](const Run& run, const char* kind, const auto& point, std::optional<double> metric,
                            const StepPoint& details) {
    std::vector<Cell> cells{
        {"run", run.name},       {"kind", kind},         {"step", point.step}, {"epoch", point.epoch},
        {"seconds", point.time}, {"bytes", point.bytes}, {"loss", point.loss}, {comparison.metric.key, metric}};
    for (const auto& [column, number] : kStepDetails) cells.push_back({column, details.*number});
    cells.push_back({"ideal_seconds", point.time_ideal});
    return cells;
  };
  std::string text = header(cells_of({}, "", StepPoint{}, {}, {}));
  for_each_run(comparison, [&](const Run& run) {
    for (const StepPoint& point : run.steps) text += row(cells_of(run, "step", point, {}, point));
    for (const EvalPoint& point : run.evals)
      text += row(cells_of(run, "eval", point, value_of(point, comparison.metric), {}));
  });
  return text;
}

}  // namespace dragonn::report

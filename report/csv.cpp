// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/bandwidth.h"
#include "report/curves.h"
#include "report/outputs.h"
#include "report/statistics.h"

namespace dragonn::report {
namespace {

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

std::string cell(std::optional<double> number) {
  return number ? fmt::format("{}", *number) : "";
}

struct Cell {
  std::string column, text;
};

/// One of both of all cells.
std::string row(const std::vector<Cell>& cells, std::string Cell::*part) {
  std::vector<std::string> texts;
  for (const Cell& cell : cells) texts.push_back(cell.*part);
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

}  // namespace

std::string runs_csv(const Comparison& comparison) {
  const std::string& metric = comparison.metric.key;
  std::string text;
  std::optional<double> dense_throughput, dense_time, dense_ideal;
  if (comparison.dense) {
    const Group& dense = comparison.groups[*comparison.dense];
    dense_throughput = of(dense.spread_of(&RunResult::throughput), &Spread::mean);
    dense_time = of(dense.spread_to_target(&Reached::time), &Spread::mean);
    dense_ideal = of(dense.spread_to_target(&Reached::time_ideal), &Spread::mean);
  }
  for (const Group& group : comparison.groups) {
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      const Run& run = group.runs[i];
      const RunResult& result = group.results[i];
      const auto reached = [&](double Reached::*field) { return of(result.to_target, field); };
      const auto quality = estimation(std::span(&run, 1));
      const auto cost = select_cost(std::span(&run, 1));
      const auto network = run.network().value_or(Network{});
      const auto ideal = result.to_target ? result.to_target->time_ideal : std::nullopt;
      const auto crossing = break_even(comparison, group, time_model(run, result));
      const std::vector<Cell> cells{
          {"run", cell(run.name)},
          {"group", cell(group.label)},
          {"method", cell(run.setting("compression.method"))},
          {"seed", cell(run.setting("seed"))},
          {"workers", cell(run.summary ? run.summary->world_size : std::nullopt)},
          {"backend", cell(run.summary ? run.summary->backend : std::string())},
          {"final_" + metric, cell(result.final_metric)},
          {"best_" + metric, cell(result.best_metric)},
          {"best_epoch", cell(result.best_epoch)},
          {"final_train_loss", cell(result.final_loss)},
          {"target_" + metric, cell(comparison.target)},
          {"steps_to_target", cell(reached(&Reached::step))},
          {"seconds_to_target", cell(reached(&Reached::time))},
          {"bytes_to_target", cell(reached(&Reached::bytes))},
          {"steps", cell(result.steps)},
          {"seconds", cell(result.seconds)},
          {"samples_per_second", cell(result.throughput)},
          {"bytes_per_step", cell(result.bytes_per_step)},
          {"bytes_total", cell(result.bytes_total)},
          {"messages_per_step", cell(mean_of_steps(run, &StepPoint::messages))},
          {"density_mean", cell(result.density)},
          {"selected_over_k", cell(of(quality, &Estimation::mean))},
          {"selected_over_k_ci90_low", cell(of(quality, &Estimation::ci_low))},
          {"selected_over_k_ci90_high", cell(of(quality, &Estimation::ci_high))},
          {"selected_over_k_p5", cell(of(quality, &Estimation::p5))},
          {"selected_over_k_p95", cell(of(quality, &Estimation::p95))},
          {"padding_overhead", cell(mean_of_steps(run, &StepPoint::padding_overhead))},
          {"imbalance", cell(mean_of_steps(run, &StepPoint::imbalance))},
          {"select_seconds", cell(product(of(cost, &SelectCost::seconds), result.steps))},
          {"select_share", cell(of(cost, &SelectCost::share))},
          {"throughput_over_dense", cell(ratio(result.throughput, dense_throughput))},
          {"time_to_target_speedup_over_dense", cell(ratio(dense_time, reached(&Reached::time)))},
          {"clock", run.is_virtual() ? "virtual" : "wall"},
          {"network_gbps", cell(network.gbps)},
          {"network_latency_us", cell(network.latency_us)},
          {"network_compute", cell(network.compute)},
          {"ideal_seconds", cell(result.seconds_ideal)},
          {"ideal_seconds_to_target", cell(ideal)},
          {"ideal_time_to_target_speedup_over_dense", cell(ratio(dense_ideal, ideal))},
          {"pays", crossing ? kPaysNames[static_cast<std::size_t>(crossing->pays)] : ""},
          {"break_even_gbps", crossing && crossing->gbps > 0 ? cell(crossing->gbps) : ""},
          {"bits_per_entry", cell(result.bits_per_entry)}};
      if (text.empty()) text = row(cells, &Cell::column);
      text += row(cells, &Cell::text);
    }
  }
  return text;
}

std::string curves_csv(const Comparison& comparison) {
  const auto cells_of = [&](const Run& run, const char* kind, const auto& point, std::optional<double> metric,
                            const StepPoint& details) {
    std::vector<Cell> cells{{"run", cell(run.name)},       {"kind", kind},
                            {"step", cell(point.step)},    {"epoch", cell(point.epoch)},
                            {"seconds", cell(point.time)}, {"bytes", cell(point.bytes)},
                            {"loss", cell(point.loss)},    {comparison.metric.key, cell(metric)}};
    for (const auto& [column, number] : kStepDetails) cells.push_back({column, cell(details.*number)});
    cells.push_back({"ideal_seconds", cell(point.time_ideal)});
    return cells;
  };
  std::string text = row(cells_of({}, "", StepPoint{}, {}, {}), &Cell::column);
  for_each_run(comparison, [&](const Run& run) {
    for (const StepPoint& point : run.steps) text += row(cells_of(run, "step", point, {}, point), &Cell::text);
    for (const EvalPoint& point : run.evals)
      text += row(cells_of(run, "eval", point, value_of(point, comparison.metric), {}), &Cell::text);
  });
  return text;
}

}  // namespace dragonn::report

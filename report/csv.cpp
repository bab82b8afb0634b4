// SPDX-License-Identifier: MIT
#include "report/csv.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/bandwidth.h"
#include "report/curves.h"
#include "report/estimation.h"

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

std::string row(const std::vector<std::string>& cells) {
  return fmt::format("{}\n", fmt::join(cells, ","));
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

/// Returns the mean over the step lines that have the number.
std::optional<double> mean_of(const Run& run, std::optional<double> StepPoint::*number) {
  std::vector<std::optional<double>> values;
  for (const StepPoint& point : run.steps) values.push_back(point.*number);
  return of(spread(values), &Spread::mean);
}

std::string pays_text(BreakEven::Pays pays) {
  switch (pays) {
    case BreakEven::Pays::kBelow:
      return "below";
    case BreakEven::Pays::kAbove:
      return "above";
    case BreakEven::Pays::kAlways:
      return "always";
    case BreakEven::Pays::kNever:
      break;
  }
  return "never";
}

/// Compares one run with the mean of the dense ones.
std::optional<BreakEven> run_break_even(const Comparison& comparison, const Group& group, std::size_t run) {
  if (!comparison.dense || &group == &comparison.groups[*comparison.dense]) return std::nullopt;
  const auto dense = time_model(comparison.groups[*comparison.dense]);
  const auto model = time_model(group.runs[run], group.results[run]);
  return dense && model ? std::optional(break_even(*model, *dense)) : std::nullopt;
}

}  // namespace

std::string runs_csv(const Comparison& comparison) {
  const std::string& metric = comparison.metric.key;
  std::string text = row({"run",
                          "group",
                          "method",
                          "seed",
                          "workers",
                          "backend",
                          "final_" + metric,
                          "best_" + metric,
                          "best_epoch",
                          "final_train_loss",
                          "target_" + metric,
                          "steps_to_target",
                          "seconds_to_target",
                          "bytes_to_target",
                          "steps",
                          "seconds",
                          "samples_per_second",
                          "bytes_per_step",
                          "bytes_total",
                          "messages_per_step",
                          "density_mean",
                          "selected_over_k",
                          "selected_over_k_ci90_low",
                          "selected_over_k_ci90_high",
                          "selected_over_k_p5",
                          "selected_over_k_p95",
                          "padding_overhead",
                          "imbalance",
                          "select_seconds",
                          "select_share",
                          "throughput_over_dense",
                          "time_to_target_speedup_over_dense",
                          "clock",
                          "network_gbps",
                          "network_latency_us",
                          "network_compute",
                          "ideal_seconds",
                          "ideal_seconds_to_target",
                          "ideal_time_to_target_speedup_over_dense",
                          "pays",
                          "break_even_gbps"});
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
      const auto crossing = run_break_even(comparison, group, i);
      text += row({cell(run.name),
                   cell(group.label),
                   cell(run.setting("compression.method")),
                   cell(run.setting("seed")),
                   cell(run.summary ? run.summary->world_size : std::nullopt),
                   cell(run.summary ? run.summary->backend : std::string()),
                   cell(result.final_metric),
                   cell(result.best_metric),
                   cell(result.best_epoch),
                   cell(result.final_loss),
                   cell(comparison.target),
                   cell(reached(&Reached::step)),
                   cell(reached(&Reached::time)),
                   cell(reached(&Reached::bytes)),
                   cell(result.steps),
                   cell(result.seconds),
                   cell(result.throughput),
                   cell(result.bytes_per_step),
                   cell(result.bytes_total),
                   cell(mean_of(run, &StepPoint::messages)),
                   cell(result.density),
                   cell(of(quality, &Estimation::mean)),
                   cell(of(quality, &Estimation::ci_low)),
                   cell(of(quality, &Estimation::ci_high)),
                   cell(of(quality, &Estimation::p5)),
                   cell(of(quality, &Estimation::p95)),
                   cell(mean_of(run, &StepPoint::padding_overhead)),
                   cell(mean_of(run, &StepPoint::imbalance)),
                   cell(product(of(cost, &SelectCost::seconds), result.steps)),
                   cell(of(cost, &SelectCost::share)),
                   cell(ratio(result.throughput, dense_throughput)),
                   cell(ratio(dense_time, reached(&Reached::time))),
                   run.is_virtual() ? "virtual" : "wall",
                   cell(network.gbps),
                   cell(network.latency_us),
                   cell(network.compute),
                   cell(result.seconds_ideal),
                   cell(ideal),
                   cell(ratio(dense_ideal, ideal)),
                   crossing ? pays_text(crossing->pays) : "",
                   crossing && crossing->gbps > 0 ? cell(crossing->gbps) : ""});
    }
  }
  return text;
}

std::string curves_csv(const Comparison& comparison) {
  std::string text = row({"run", "kind", "step", "epoch", "seconds", "bytes", "loss", comparison.metric.key,
                          "density_target", "density_local", "density_global", "selected_over_k", "threshold",
                          "residual_norm", "messages", "padding_overhead", "imbalance", "lost_mass", "ideal_seconds"});
  for (const Group& group : comparison.groups) {
    for (const Run& run : group.runs) {
      const std::string name = cell(run.name);
      for (const StepPoint& point : run.steps) {
        text += row({name, "step", cell(point.step), cell(point.epoch), cell(point.time), cell(point.bytes),
                     cell(point.loss), "", cell(point.density_target), cell(point.density_local),
                     cell(point.density_global), cell(point.selected_over_k), cell(point.threshold),
                     cell(point.residual_norm), cell(point.messages), cell(point.padding_overhead),
                     cell(point.imbalance), cell(point.lost_mass), cell(point.time_ideal)});
      }
      for (const EvalPoint& point : run.evals) {
        text += row({name, "eval", cell(point.step), cell(point.epoch), cell(point.time), cell(point.bytes),
                     cell(point.loss), cell(value_of(point, comparison.metric)), "", "", "", "", "", "", "", "", "", "",
                     cell(point.time_ideal)});
      }
    }
  }
  return text;
}

}  // namespace dragonn::report

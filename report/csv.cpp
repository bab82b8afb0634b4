// SPDX-License-Identifier: MIT
#include "report/csv.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

/// One number of a struct that may be absent.
template <class Struct>
std::optional<double> of(const std::optional<Struct>& numbers, double Struct::*field) {
  return numbers ? std::optional((*numbers).*field) : std::nullopt;
}

/// Over the step lines that have the number.
std::optional<double> mean_of(const Run& run, std::optional<double> StepPoint::*number) {
  std::vector<std::optional<double>> values;
  for (const StepPoint& point : run.steps) values.push_back(point.*number);
  return of(spread(values), &Spread::mean);
}

std::string config_value(const Run& run, const char* key) {
  const auto found = run.config.find(key);
  return found == run.config.end() ? "" : cell(found->second);
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
                          "time_to_target_speedup_over_dense"});
  std::optional<double> dense_throughput, dense_time;
  if (comparison.dense) {
    const Group& dense = comparison.groups[*comparison.dense];
    dense_throughput = of(dense.spread_of(&RunResult::throughput), &Spread::mean);
    dense_time = of(dense.spread_to_target(&Reached::time), &Spread::mean);
  }
  for (const Group& group : comparison.groups) {
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      const Run& run = group.runs[i];
      const RunResult& result = group.results[i];
      const auto reached = [&](double Reached::*field) { return of(result.to_target, field); };
      const auto quality = estimation(std::span(&run, 1));
      const auto cost = select_cost(std::span(&run, 1));
      text += row({cell(run.name),
                   cell(group.label),
                   config_value(run, "compression.method"),
                   config_value(run, "seed"),
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
                   cell(ratio(dense_time, reached(&Reached::time)))});
    }
  }
  return text;
}

std::string curves_csv(const Comparison& comparison) {
  std::string text = row({"run", "kind", "step", "epoch", "seconds", "bytes", "loss", comparison.metric.key,
                          "density_target", "density_local", "density_global", "selected_over_k", "threshold",
                          "residual_norm", "messages", "padding_overhead", "imbalance", "lost_mass"});
  for (const Group& group : comparison.groups) {
    for (const Run& run : group.runs) {
      const std::string name = cell(run.name);
      for (const StepPoint& point : run.steps) {
        text += row({name, "step", cell(point.step), cell(point.epoch), cell(point.time), cell(point.bytes),
                     cell(point.loss), "", cell(point.density_target), cell(point.density_local),
                     cell(point.density_global), cell(point.selected_over_k), cell(point.threshold),
                     cell(point.residual_norm), cell(point.messages), cell(point.padding_overhead),
                     cell(point.imbalance), cell(point.lost_mass)});
      }
      for (const EvalPoint& point : run.evals) {
        text +=
            row({name, "eval", cell(point.step), cell(point.epoch), cell(point.time), cell(point.bytes),
                 cell(point.loss), cell(value_of(point, comparison.metric)), "", "", "", "", "", "", "", "", "", ""});
      }
    }
  }
  return text;
}

}  // namespace dragonn::report

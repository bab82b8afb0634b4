// SPDX-License-Identifier: MIT
#include "report/csv.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

std::optional<double> mean_of(const std::optional<Spread>& spread) {
  return spread ? std::optional(spread->mean) : std::nullopt;
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
                          "density_mean",
                          "throughput_over_dense",
                          "time_to_target_speedup_over_dense"});
  std::optional<double> dense_throughput, dense_time;
  if (comparison.dense) {
    const Group& dense = comparison.groups[*comparison.dense];
    dense_throughput = mean_of(dense.spread_of(&RunResult::throughput));
    dense_time = mean_of(dense.spread_to_target(&Reached::time));
  }
  for (const Group& group : comparison.groups) {
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      const Run& run = group.runs[i];
      const RunResult& result = group.results[i];
      const auto reached = [&](double Reached::*field) {
        return result.to_target ? std::optional((*result.to_target).*field) : std::nullopt;
      };
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
                   cell(result.density),
                   cell(ratio(result.throughput, dense_throughput)),
                   cell(ratio(dense_time, reached(&Reached::time)))});
    }
  }
  return text;
}

std::string curves_csv(const Comparison& comparison) {
  std::string text = row({"run", "kind", "step", "epoch", "seconds", "bytes", "loss", comparison.metric.key,
                          "density_target", "density_local", "density_global"});
  for (const Group& group : comparison.groups) {
    for (const Run& run : group.runs) {
      const std::string name = cell(run.name);
      for (const StepPoint& point : run.steps) {
        text += row({name, "step", cell(point.step), cell(point.epoch), cell(point.time), cell(point.bytes),
                     cell(point.loss), "", cell(point.density_target), cell(point.density_local),
                     cell(point.density_global)});
      }
      for (const EvalPoint& point : run.evals) {
        text += row({name, "eval", cell(point.step), cell(point.epoch), cell(point.time), cell(point.bytes),
                     cell(point.loss), cell(value_of(point, comparison.metric)), "", "", ""});
      }
    }
  }
  return text;
}

}  // namespace dragonn::report

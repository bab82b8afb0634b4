// SPDX-License-Identifier: MIT
/// The numbers of runs and groups as tables (CSV) and as JSON; docs/formats.md explains columns and keys.
#include <charconv>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "report/bandwidth.h"
#include "report/curves.h"
#include "report/outputs.h"
#include "report/text.h"

namespace dragonn::report {
namespace {

using Json = nlohmann::ordered_json;
/// A text, or a number that may be unknown.
using Value = std::variant<std::string, std::optional<double>>;
using Cells = std::vector<std::pair<std::string, Value>>;  // columns and values

std::string csv_text(const Value& value) {
  if (const auto* number = std::get_if<std::optional<double>>(&value))
    return *number ? fmt::format("{}", **number) : "";
  const auto& text = std::get<std::string>(value);
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return fmt::format("\"{}\"", escaped(text, {{'"', "\"\""}}));
}

std::string header(const Cells& cells) {
  return fmt::format("{}\n", fmt::join(cells | std::views::keys, ","));
}

std::string row(const Cells& cells) {
  return fmt::format("{}\n", fmt::join(cells | std::views::values | std::views::transform(csv_text), ","));
}

Json to_json(const std::optional<double>& number) {
  return number ? Json(*number) : Json(nullptr);
}

Json to_json(const Value& value) {
  if (const auto* number = std::get_if<std::optional<double>>(&value)) return to_json(*number);
  const auto& text = std::get<std::string>(value);
  return text.empty() ? Json(nullptr) : Json(text);
}

std::optional<double> ratio(std::optional<double> a, std::optional<double> b) {
  return a && b && *b != 0 ? std::optional(*a / *b) : std::nullopt;
}

std::optional<double> product(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a * *b) : std::nullopt;
}

/// Returns the values of the keys "pays" and "break_even_gbps".
std::pair<std::string, std::optional<double>> pays(const std::optional<BreakEven>& crossing) {
  if (!crossing) return {};
  return {kPaysNames[static_cast<std::size_t>(crossing->pays)],
          crossing->gbps > 0 ? std::optional(crossing->gbps) : std::nullopt};
}

/// Returns what is known of one run of a group, the same columns for every run. Numbers are in base units (bytes,
/// seconds).
Cells run_cells(const Comparison& comparison, const Group& group, std::size_t index) {
  const std::string& metric = comparison.metric.key;
  const Group* const dense = comparison.dense_group();
  const auto of_dense = [&](auto number) {
    return dense != nullptr ? field(dense->spread_of(number), &Spread::mean) : std::nullopt;
  };
  const Run& run = group.runs[index];
  const RunResult& result = group.results[index];
  const Reached reached = result.to_target.value_or(Reached{});
  const auto quality = estimation(std::span(&run, 1));
  const auto cost = select_cost(std::span(&run, 1));
  const auto network = run.network().value_or(Network{});
  const auto [pays_text, break_even_gbps] = pays(break_even(comparison, group, time_model(run, result)));
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
          {"steps_to_target", reached.step},
          {"seconds_to_target", reached.time},
          {"bytes_to_target", reached.bytes},
          {"steps", result.steps},
          {"seconds", result.seconds},
          {"samples_per_second", result.throughput},
          {"bytes_per_step", result.bytes_per_step},
          {"bytes_total", result.bytes_total},
          {"messages_per_step", mean_of_steps(run, &StepPoint::messages)},
          {"density_mean", result.density},
          {"selected_over_k", field(quality, &Estimation::mean)},
          {"selected_over_k_ci90_low", field(quality, &Estimation::ci_low)},
          {"selected_over_k_ci90_high", field(quality, &Estimation::ci_high)},
          {"selected_over_k_p5", field(quality, &Estimation::p5)},
          {"selected_over_k_p95", field(quality, &Estimation::p95)},
          {"padding_overhead", mean_of_steps(run, &StepPoint::padding_overhead)},
          {"imbalance", mean_of_steps(run, &StepPoint::imbalance)},
          {"select_seconds", product(field(cost, &SelectCost::seconds), result.steps)},
          {"select_share", field(cost, &SelectCost::share)},
          {"throughput_over_dense", ratio(result.throughput, of_dense(&RunResult::throughput))},
          {"time_to_target_speedup_over_dense", ratio(of_dense(&Reached::time), reached.time)},
          {"clock", run.is_virtual() ? "virtual" : "wall"},
          {"network_gbps", network.gbps},
          {"network_latency_us", network.latency_us},
          {"network_compute", network.compute},
          {"ideal_seconds", result.seconds_ideal},
          {"ideal_seconds_to_target", reached.time_ideal},
          {"ideal_time_to_target_speedup_over_dense", ratio(of_dense(&Reached::time_ideal), reached.time_ideal)},
          {"pays", pays_text},
          {"break_even_gbps", break_even_gbps},
          {"bits_per_entry", result.bits_per_entry},
          {"utilization", run.steps.empty() ? std::nullopt : run.steps.back().utilization},
          {"drift", mean_of_steps(run, &StepPoint::drift)}};
}

/// The numbers of a group.
struct GroupCells {
  Cells shared;  ///< what its runs share: method, workers, clock and network, target
  /// All other numbers, over its runs. Those of arrivals are unknown unless all runs arrived.
  std::vector<std::pair<std::string, std::optional<Spread>>> numbers;
};

GroupCells group_cells(const Comparison& comparison, const Group& group) {
  const std::set<std::string> shared{"method",          "workers",
                                     "backend",         "clock",
                                     "network_gbps",    "network_latency_us",
                                     "network_compute", "target_" + comparison.metric.key};
  GroupCells cells;
  std::vector<Cells> runs;
  for (std::size_t i = 0; i < group.runs.size(); ++i) runs.push_back(run_cells(comparison, group, i));
  for (std::size_t i = 0; i < runs.front().size(); ++i) {
    const auto& [column, first] = runs.front()[i];
    if (shared.contains(column)) cells.shared.push_back(runs.front()[i]);
    if (shared.contains(column) || std::holds_alternative<std::string>(first)) continue;
    auto numbers = spread_of(runs, [&](const Cells& run) { return std::get<std::optional<double>>(run[i].second); });
    const bool is_arrival = column.find("to_target") != std::string::npos;
    if (is_arrival && numbers && numbers->count < runs.size()) numbers.reset();
    cells.numbers.emplace_back(column, numbers);
  }
  return cells;
}

/// Returns a seed as the number that it is.
Json seed_of(const Run& run) {
  const std::string text = run.setting("seed");
  std::int64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  return error == std::errc() && end == text.data() + text.size() ? Json(seed) : Json(nullptr);
}

Json group_object(const Comparison& comparison, const Group& group) {
  Json runs = Json::array(), seeds = Json::array();
  for (const Run& run : group.runs) {
    runs.push_back(run.name);
    seeds.push_back(seed_of(run));
  }
  Json object{
      {"kind", "group"}, {"group", group.label}, {"runs", runs}, {"seeds", seeds}, {"is_dense", group.is_dense}};
  const GroupCells cells = group_cells(comparison, group);
  for (const auto& [column, value] : cells.shared) object[column] = to_json(value);
  for (const auto& [column, spread] : cells.numbers) {
    object[column] = nullptr;
    if (!spread) continue;
    object[column] = {{"mean", spread->mean},
                      {"low", spread->low},
                      {"high", spread->high},
                      {"count", spread->count},
                      {"ci95", to_json(spread->ci95)}};
  }
  const auto [pays_text, break_even_gbps] = pays(break_even(comparison, group));
  object["pays"] = to_json(pays_text);
  object["break_even_gbps"] = to_json(break_even_gbps);
  return object;
}

}  // namespace

std::string runs_csv(const Comparison& comparison) {
  std::string text;
  for (const Group& group : comparison.groups) {
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      const Cells cells = run_cells(comparison, group, i);
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
    Cells cells{{"group", group.label}, {"runs", static_cast<double>(group.runs.size())}};
    cells.insert(cells.end(), known.shared.begin(), known.shared.end());
    for (const auto& [column, spread] : known.numbers) {
      cells.emplace_back(column + "_mean", field(spread, &Spread::mean));
      cells.emplace_back(column + "_low", field(spread, &Spread::low));
      cells.emplace_back(column + "_high", field(spread, &Spread::high));
    }
    if (text.empty()) text = header(cells);
    text += row(cells);
  }
  return text;
}

std::string curves_csv(const Comparison& comparison) {
  const auto cells_of = [&](const Run& run, const char* kind, const auto& point, std::optional<double> metric,
                            const StepPoint& details) {
    Cells cells{{"run", run.name},       {"kind", kind},         {"step", point.step}, {"epoch", point.epoch},
                {"seconds", point.time}, {"bytes", point.bytes}, {"loss", point.loss}, {comparison.metric.key, metric}};
    for (const auto& [column, number] : kStepDetails) cells.emplace_back(column, details.*number);
    cells.emplace_back("ideal_seconds", point.time_ideal);
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

std::string comparison_json(const Comparison& comparison) {
  Json objects = Json::array();
  for (const Group& group : comparison.groups) {
    objects.push_back(group_object(comparison, group));
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      Json& object = objects.emplace_back(Json{{"kind", "run"}});
      for (const auto& [column, value] : run_cells(comparison, group, i)) object[column] = to_json(value);
      object["seed"] = seed_of(group.runs[i]);
    }
  }
  return objects.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dragonn::report

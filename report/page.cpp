// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/timer.h"
#include "report/bandwidth.h"
#include "report/curves.h"
#include "report/outputs.h"
#include "report/statistics.h"
#include "report/text.h"

namespace dragonn::report {
namespace {

using Json = nlohmann::ordered_json;

/// Rounds to six digits: more than a chart shows, and the page stays small.
Json rounded(const std::vector<double>& values) {
  Json list = Json::array();
  for (double value : values) list.push_back(std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr));
  return list;
}

/// Adds extremes only if there are several runs.
Json to_json(const Curve& curve, const Group& group) {
  Json json{{"step", rounded(curve.step)},
            {"time", rounded(curve.time)},
            {"bytes", rounded(curve.bytes)},
            {"time_ideal", rounded(curve.time_ideal)},
            {"mean", rounded(curve.mean)}};
  if (group.runs.size() < 2) return json;
  json["low"] = rounded(curve.low);
  json["high"] = rounded(curve.high);
  return json;
}

Json to_json(const std::optional<Estimation>& quality) {
  if (!quality) return nullptr;
  return {{"steps", quality->steps},     {"mean", quality->mean}, {"ci_low", quality->ci_low},
          {"ci_high", quality->ci_high}, {"p5", quality->p5},     {"p95", quality->p95}};
}

Json to_json(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"mean", spread->mean},
          {"low", spread->low},
          {"high", spread->high},
          {"count", spread->count},
          {"ci95", spread->ci95 ? Json(*spread->ci95) : Json(nullptr)}};
}

Json to_json(const Fit& fit) {
  return {{"name", fit.name},
          {"share", rounded(fit.share)},
          {"magnitude", rounded(fit.magnitude)},
          {"exponential", rounded(fit.exponential)},
          {"gamma", rounded(fit.gamma)},
          {"pareto", rounded(fit.pareto)}};
}

Json table_row(const Group& group) {
  const auto spread = [&](auto number) { return to_json(group.spread_of(number)); };
  return {{"final", spread(&RunResult::final_metric)},    {"best", spread(&RunResult::best_metric)},
          {"loss", spread(&RunResult::final_loss)},       {"target_time", spread(&Reached::time)},
          {"target_ideal", spread(&Reached::time_ideal)}, {"target_bytes", spread(&Reached::bytes)},
          {"throughput", spread(&RunResult::throughput)}, {"bytes_per_step", spread(&RunResult::bytes_per_step)},
          {"bytes", spread(&RunResult::bytes_total)},     {"density", spread(&RunResult::density)},
          {"bits", spread(&RunResult::bits_per_entry)},   {"steps", spread(&RunResult::steps)},
          {"seconds", spread(&RunResult::seconds)}};
}

/// Returns "4 workers (local)", or "" if the run has no summary yet.
std::string workers_text(const Run& run) {
  if (!run.summary || !run.summary->world_size) return "";
  const double workers = *run.summary->world_size;
  return fmt::format("{} worker{} ({})", workers, workers == 1 ? "" : "s", run.summary->backend);
}

Json to_json(const std::optional<TimeModel>& model) {
  if (!model) return nullptr;
  return {{"ideal", model->ideal}, {"latency", model->latency}, {"gigabits", model->gigabits}};
}

/// Returns the clock of a group's times, in parts: a table's cell shows one below the other.
Json clock_parts(const Group& group) {
  const auto network = group.runs.front().network();
  if (!network) return {"wall"};
  return {"virtual", network_text(*network), compute_text(*network)};
}

Json to_json(const Group& group, const Metric& metric) {
  const ThresholdTrace trace = threshold_trace(group);
  return {{"label", group.label},
          {"clock", clock_parts(group)},
          {"model", to_json(time_model(group))},
          {"runs", group.runs.size()},
          {"dense", group.is_dense},
          {"workers", workers_text(group.runs.front())},
          {"loss", to_json(loss_curve(group), group)},
          {"metric", to_json(metric_curve(group, metric), group)},
          {"density",
           {{"local", to_json(step_curve(group, &StepPoint::density_local), group)},
            {"target", to_json(step_curve(group, &StepPoint::density_target), group)},
            {"global", to_json(step_curve(group, &StepPoint::density_global), group)}}},
          {"estimation", to_json(estimation(group.runs))},
          {"quality", to_json(step_curve(group, &StepPoint::selected_over_k), group)},
          {"trace", {{"threshold", to_json(trace.threshold, group)}, {"error", to_json(trace.error, group)}}},
          {"seconds", seconds_by_part(group.runs)},
          {"table", table_row(group)}};
}

std::string subtitle(const Comparison& comparison) {
  std::size_t runs = 0;
  for (const Group& group : comparison.groups) runs += group.runs.size();
  std::string text = runs == 1 ? "1 run" : fmt::format("{} runs", runs);
  const auto shared = [&](const char* key) {
    return shared_text(
        comparison, [&](const Run& run) { return run.setting(key); }, "");
  };
  const std::string model = shared("model.name"), data = shared("data.name");
  if (!model.empty() && !data.empty()) text = fmt::format("{} on {}, {}", model, data, text);
  const std::string batch = shared("train.batch_size");
  if (!batch.empty()) text += fmt::format(", batch {} per worker", batch);
  return text;
}

std::string short_label(std::string label) {
  if (label.starts_with("Test ")) return label.substr(5);
  std::ranges::transform(label, label.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return label;
}

Json to_json(const Comparison& comparison) {
  const Metric& metric = comparison.metric;
  Json groups = Json::array(), differences = Json::array(), parts_of_a_step = Json::array();
  const std::vector<Style> styles = group_styles(comparison);
  std::set<double> described;
  std::size_t next_color = 0;
  for (std::size_t i = 0; i < styles.size(); ++i) {
    const Group& group = comparison.groups[i];
    const auto network = group.runs.front().network();
    if (network && network->gbps) described.insert(*network->gbps);
    const auto crossing = break_even(comparison, group);
    groups.push_back(to_json(group, metric));
    // The page's style sheet has a light and a dark colour for each name.
    groups.back()["style"] = {{"color", group.is_dense ? "--dense" : fmt::format("--c{}", next_color++ % kPaletteSize)},
                              {"dash", styles[i].dash},
                              {"marker", styles[i].marker}};
    groups.back()["pays"] = crossing ? crossing->text() : "";
    groups.back()["break_even"] = crossing ? crossing->gbps : 0;
  }
  for (const Difference& difference : comparison.differences) {
    differences.push_back({{"key", difference.key}, {"values", difference.values}});
  }
  for (const char* part : kStepPartNames) {
    if (!is_overlap_share(part)) parts_of_a_step.push_back(part);
  }
  return {{"subtitle", subtitle(comparison)},
          {"clock",
           {{"text", clock_text(comparison)},
            {"name", clock_name(comparison)},
            {"described", described_network_name(comparison)},
            {"has_ideal", has_ideal_times(comparison)}}},
          {"bandwidths", {{"low", kLowestGbps}, {"high", kHighestGbps}, {"described", described}}},
          {"metric", {{"label", metric.label}, {"short", short_label(metric.label)}, {"share", metric.is_share}}},
          {"target", comparison.target ? Json(*comparison.target) : Json(nullptr)},
          {"target_reason", comparison.target_reason},
          {"dense", comparison.dense ? Json(*comparison.dense) : Json(nullptr)},
          {"verbs", parts_of_a_step},
          {"groups", std::move(groups)},
          {"differences", std::move(differences)},
          {"warnings", comparison.warnings}};
}

/// Replaces the {{marks}} by the parts. The parts themselves are not searched.
std::string filled(std::string_view page, const std::map<std::string, std::string_view>& parts) {
  std::string result;
  for (;;) {
    const std::size_t begin = page.find("{{");
    const std::size_t end = page.find("}}", begin == std::string_view::npos ? page.size() : begin);
    if (end == std::string_view::npos) return result.append(page);
    result.append(page.substr(0, begin));
    result.append(parts.at(std::string(page.substr(begin + 2, end - begin - 2))));
    page.remove_prefix(end + 2);
  }
}

}  // namespace

std::string html_page(const Comparison& comparison, const std::vector<Fit>& fits, const std::string& title) {
  Json json = to_json(comparison);
  json["fits"] = Json::array();
  for (const Fit& fit : fits) json["fits"].push_back(to_json(fit));
  // Without '<' no text in a script element can close it.
  const std::string data = escaped(json.dump(-1, ' ', false, Json::error_handler_t::replace), {{'<', "\\u003c"}});
  const std::string safe_title = markup_escaped(title);
  std::map<std::string, std::string_view> parts = page_parts();
  parts["title"] = safe_title;
  parts["data"] = data;
  return filled(parts.at("page"), parts);
}

}  // namespace dragonn::report

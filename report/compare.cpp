// SPDX-License-Identifier: MIT
#include "report/compare.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "report/run.h"
#include "report/text.h"

namespace dragonn::report {
namespace {

/// Returns the last `parts` parts of a path.
std::string tail(const std::filesystem::path& path, std::size_t parts) {
  std::filesystem::path result = path.filename();
  std::filesystem::path rest = path.parent_path();
  for (std::size_t i = 1; i < parts && rest.has_filename(); ++i, rest = rest.parent_path()) {
    result = rest.filename() / result;
  }
  return result.string();
}

std::string common_prefix(std::span<const Run> runs) {
  std::string_view prefix = runs.front().name;
  for (const Run& run : runs) {
    const auto difference = std::ranges::mismatch(prefix, run.name).in1;
    prefix = prefix.substr(0, static_cast<std::size_t>(difference - prefix.begin()));
  }
  return std::string(prefix);
}

/// Removes separators and the word "seed" from the end.
std::string without_seed_suffix(std::string text) {
  const auto strip = [&] {
    while (!text.empty() && std::string_view("-_./= ").find(text.back()) != std::string_view::npos) text.pop_back();
  };
  strip();
  for (std::string_view word : {"seed", "s"}) {
    const std::size_t start = text.size() - std::min(text.size(), word.size());
    if (text.ends_with(word) && start > 0 && std::string_view("-_./").find(text[start - 1]) != std::string_view::npos) {
      text.erase(start);
      strip();
    }
  }
  return text;
}

/// Returns the first run that has a config; null without one.
const Run* reference(std::span<const Run> runs) {
  for (const Run& run : runs) {
    if (!run.config.empty()) return &run;
  }
  return nullptr;
}

bool is_of_task(const std::string& key) {
  return (key.starts_with("model.") || key.starts_with("data.")) && key != "data.path";
}

/// Adds as many parent folders to names as it takes if folders share a name ("a/run", "b/run").
void name_apart(std::span<Run> runs) {
  for (std::size_t parts = 1;; ++parts) {
    std::map<std::string, std::vector<Run*>> by_name;
    for (Run& run : runs) by_name[run.name].push_back(&run);
    bool changed = false;
    for (auto& [name, same] : by_name) {
      if (same.size() < 2) continue;
      for (Run* run : same) {
        std::string longer = tail(run->path, parts + 1);
        changed = changed || longer != run->name;
        run->name = std::move(longer);
      }
    }
    if (!changed) return;
  }
}

/// Returns the name of a single run, or the common part of the names of a group's runs ("dgc-seed1", "dgc-seed2" ->
/// "dgc").
std::string group_label(std::span<const Run> runs) {
  if (runs.size() == 1) return runs.front().name;
  const std::string prefix = without_seed_suffix(common_prefix(runs));
  return prefix.empty() ? runs.front().name : prefix;
}

/// Refuses runs whose model or data set differs from the first run's. A run without a config passes.
/// @throws ConfigError naming the two runs and the difference.
void require_one_task(std::span<const Run> runs) {
  const Run* first = reference(runs);
  for (const Run& run : runs) {
    if (run.config.empty()) continue;
    for (const char* key : {"data.name", "model.name"}) {
      if (run.setting(key) == first->setting(key)) continue;
      throw ConfigError(
          fmt::format("{} and {} are runs of different tasks: {} is \"{}\" and \"{}\"; expected one data set and model "
                      "(--allow-different-tasks compares them all the same)",
                      first->name, run.name, key, first->setting(key), run.setting(key)));
    }
  }
}

/// Returns a warning for each other key of [model] and [data] that differs from the first run's, as a smaller test set
/// does.
std::vector<std::string> task_warnings(std::span<const Run> runs) {
  std::vector<std::string> warnings;
  const Run* first = reference(runs);
  std::set<std::string> told;
  for (const Run& run : runs) {
    if (run.config.empty()) continue;
    std::map<std::string, std::string> both = run.config;
    both.insert(first->config.begin(), first->config.end());
    for (const auto& [key, value] : both) {
      if (!is_of_task(key) || run.setting(key) == first->setting(key) || !told.insert(key).second) continue;
      warnings.push_back(fmt::format("{} differs: \"{}\" in {}, \"{}\" in {}; their qualities may not compare", key,
                                     first->setting(key), first->name, run.setting(key), run.name));
    }
  }
  return warnings;
}

/// Returns whether a key makes no other experiment of a run.
bool is_incidental(std::string_view key) {
  return key.starts_with("logging.") || key.starts_with("checkpoint.") || key == "seed" || key == "data.path" ||
         key == "comm.timeout_s";
}

/// Returns the config without incidental keys.
std::map<std::string, std::string> experiment(const Run& run) {
  std::map<std::string, std::string> config = run.config;
  std::erase_if(config, [](const auto& entry) { return is_incidental(entry.first); });
  return config;
}

/// Returns whether two runs belong to one group. A run without a config is alone; one without a summary may have any
/// number of workers.
bool belong_together(const Run& a, const Run& b) {
  if (a.config.empty() || experiment(a) != experiment(b)) return false;
  if (!a.summary || !b.summary) return true;
  return a.summary->world_size == b.summary->world_size && a.summary->backend == b.summary->backend;
}

std::vector<Group> make_groups(std::vector<Run> runs) {
  std::vector<Group> groups;
  for (Run& run : runs) {
    auto group =
        std::ranges::find_if(groups, [&](const Group& other) { return belong_together(other.runs.front(), run); });
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->is_dense = run.is_dense();
    group->runs.push_back(std::move(run));
  }
  std::set<std::string> labels;
  for (Group& group : groups) {
    group.label = group_label(group.runs);
    if (!labels.insert(group.label).second) group.label = group.runs.front().name;
  }
  return groups;
}

std::vector<Difference> find_differences(const std::vector<Group>& groups) {
  std::map<std::string, std::string> all;
  for (const Group& group : groups) all.merge(experiment(group.runs.front()));
  std::vector<Difference> differences;
  for (const auto& [key, value] : all) {
    Difference difference{key, {}};
    for (const Group& group : groups) difference.values.push_back(group.runs.front().setting(key));
    if (std::ranges::adjacent_find(difference.values, std::not_equal_to<>()) != difference.values.end())
      differences.push_back(std::move(difference));
  }
  return differences;
}

std::optional<double> mean_final(const Group& group, const Metric& metric) {
  const auto final_of = [&](const Run& run) {
    return run.evals.empty() ? std::nullopt : value_of(run.evals.back(), metric);
  };
  return field(spread_of(group.runs, final_of), &Spread::mean);
}

/// Returns the group whose final metric sets the target: the dense one, or else the best.
const Group* reference_group(const Comparison& comparison) {
  if (comparison.dense) return comparison.dense_group();
  const Group* best = nullptr;
  for (const Group& group : comparison.groups) {
    const auto value = mean_final(group, comparison.metric);
    if (!value) continue;
    if (best == nullptr || comparison.metric.reaches(*value, *mean_final(*best, comparison.metric))) best = &group;
  }
  return best;
}

/// Checks the target. Shares are in 0..1: a user who gives percent gets an error.
void check_target(const Metric& metric, double target) {
  if (!metric.is_share) {
    if (target > 0) return;
    throw ConfigError(fmt::format("--target {}: expected a {} above 0", target, metric.key));
  }
  if (target >= 0 && target <= 1) return;
  const std::string proposal = target > 1 && target <= 100 ? fmt::format("; did you mean {:.6g}?", target / 100) : "";
  throw ConfigError(fmt::format("--target {}: {} is a share in 0..1{}", target, metric.key, proposal));
}

void choose_target(Comparison& comparison, const CompareOptions& options) {
  comparison.target = options.target;
  comparison.target_reason = "as given";
  if (options.target) return check_target(comparison.metric, *options.target);
  const double share = options.target_share;
  if (!(share > 0 && share <= 1)) {
    throw ConfigError(fmt::format("--target-share {}: expected a share of the dense run's quality in (0, 1]", share));
  }
  const Group* reference = reference_group(comparison);
  const auto value = reference == nullptr ? std::nullopt : mean_final(*reference, comparison.metric);
  if (!value) {
    comparison.target_reason = "no run was evaluated";
    return;
  }
  const bool higher = comparison.metric.higher_is_better;
  comparison.target = higher ? *value * share : *value / share;
  comparison.target_reason =
      fmt::format("{} {:.4g} % of {}'s final value", higher ? "at least" : "within", 100 * share, reference->label);
}

/// Returns a warning without its numbers, in which those of seeds differ.
std::string without_numbers(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
  return text;
}

/// Collects the warnings of the runs. One that several seeds of a group have stands once, as the first of them has it.
void collect_warnings(Comparison& comparison) {
  for (const Group& group : comparison.groups) {
    std::vector<std::string> kinds;
    std::map<std::string, std::vector<std::string>> runs_with;
    std::map<std::string, std::string> first;
    for (const Run& run : group.runs) {
      for (const std::string& warning : run.warnings) {
        const std::string kind = without_numbers(warning);
        if (first.emplace(kind, warning).second) kinds.push_back(kind);
        runs_with[kind].push_back(run.name);
      }
    }
    for (const std::string& kind : kinds) {
      comparison.warnings.push_back(fmt::format("{}: {}", fmt::join(runs_with[kind], ", "), first[kind]));
    }
  }
}

/// Warns if some times are virtual, those of training steps on a modelled network, and others are wall times.
void warn_of_unlike_times(Comparison& comparison) {
  const Run* by_kind[2] = {nullptr, nullptr};
  const Run* modelled = nullptr;
  for_each_run(comparison, [&](const Run& run) {
    if (run.summary) by_kind[run.is_virtual() ? 1 : 0] = &run;
    if (!run.is_virtual()) return;
    if (modelled == nullptr) modelled = &run;
    if (clock_text(run) == clock_text(*modelled)) return;
    comparison.warnings.push_back(fmt::format("the times of {0} and {1} do not compare: {0} has {2}, {1} has {3}",
                                              modelled->name, run.name, clock_text(*modelled), clock_text(run)));
  });
  if (by_kind[0] == nullptr || by_kind[1] == nullptr) return;
  comparison.warnings.push_back(
      fmt::format("the times of {} are virtual and those of {} wall times: do not compare them", by_kind[1]->name,
                  by_kind[0]->name));
}

}  // namespace

Metric choose_metric(std::span<const Run> runs) {
  static const Metric kKnown[] = {{"accuracy", "Test accuracy", true, true},
                                  {"precision_at_1", "Precision at 1", true, true},
                                  {"precision_at_3", "Precision at 3", true, true},
                                  {"precision_at_5", "Precision at 5", true, true},
                                  {"f1", "F1", true, true},
                                  {"exact_match", "Exact match", true, true},
                                  {"perplexity", "Test perplexity", false, false},
                                  {"word_error_rate", "Word error rate", false, true},
                                  {"character_error_rate", "Character error rate", false, true}};
  for (const Metric& metric : kKnown) {
    for (const Run& run : runs) {
      if (!run.evals.empty() && run.evals.back().metrics.contains(metric.key)) return metric;
    }
  }
  return {"loss", "Test loss", false, false};
}

std::optional<double> value_of(const EvalPoint& point, const Metric& metric) {
  if (metric.key == "loss") return point.loss;
  const auto found = point.metrics.find(metric.key);
  return found == point.metrics.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Reached> time_to_target(const Run& run, const Metric& metric, double target) {
  for (const EvalPoint& point : run.evals) {
    const auto value = value_of(point, metric);
    if (value && metric.reaches(*value, target)) return Reached{point.step, point.time, point.bytes, point.time_ideal};
  }
  return std::nullopt;
}

std::optional<double> mean_of_steps(const Run& run, std::optional<double> StepPoint::*number) {
  return field(spread_of(run.steps, number), &Spread::mean);
}

RunResult evaluate_run(const Run& run, const Metric& metric, std::optional<double> target) {
  RunResult result;
  for (const EvalPoint& point : run.evals) {
    const auto value = value_of(point, metric);
    if (!value) continue;
    result.final_metric = value;
    if (result.best_metric && metric.reaches(*result.best_metric, *value)) continue;  // the earliest of equals
    result.best_metric = value;
    result.best_epoch = point.epoch;
  }
  if (target) result.to_target = time_to_target(run, metric, *target);
  result.bits_per_entry = mean_of_steps(run, &StepPoint::bits_per_entry);
  if (!run.steps.empty()) {
    const StepPoint& last = run.steps.back();
    result.final_loss = last.loss;
    result.steps = last.step;
    result.seconds = last.time;
    result.seconds_ideal = last.time_ideal;
    result.bytes_total = last.bytes;
    if (last.step > 0) result.bytes_per_step = last.bytes / last.step;
  }
  if (run.summary) {
    result.throughput = run.summary->throughput;
    result.density = run.summary->density_mean;
    if (run.summary->steps) result.steps = run.summary->steps;
    if (run.summary->seconds_total) result.seconds = run.summary->seconds_total;
  }
  return result;
}

std::optional<Spread> Group::spread_of(std::optional<double> RunResult::*number) const {
  return report::spread_of(results, number);
}

std::optional<Spread> Group::spread_of(std::optional<double> Reached::*number) const {
  const auto of_all =
      report::spread_of(results, [&](const RunResult& result) { return result.to_target.value_or(Reached{}).*number; });
  return of_all && of_all->count == results.size() ? of_all : std::nullopt;
}

Comparison compare(std::vector<Run> runs, const CompareOptions& options) {
  if (runs.empty()) throw ConfigError("no runs to compare: expected at least one run folder");
  std::set<std::string> paths;
  for (const Run& run : runs) {
    if (!paths.insert(run.path.string()).second) throw ConfigError(run.path.string() + ": this run is given twice");
  }
  name_apart(runs);
  if (!options.allow_different_tasks) require_one_task(runs);
  Comparison comparison;
  comparison.warnings = task_warnings(runs);
  comparison.metric = choose_metric(runs);
  comparison.groups = make_groups(std::move(runs));
  const auto dense = std::ranges::find(comparison.groups, true, &Group::is_dense);
  if (dense != comparison.groups.end()) {
    comparison.dense = static_cast<std::size_t>(dense - comparison.groups.begin());
  }
  choose_target(comparison, options);
  for (Group& group : comparison.groups) {
    for (const Run& run : group.runs) {
      group.results.push_back(evaluate_run(run, comparison.metric, comparison.target));
    }
  }
  comparison.differences = find_differences(comparison.groups);
  collect_warnings(comparison);
  warn_of_unlike_times(comparison);
  return comparison;
}

}  // namespace dragonn::report

// SPDX-License-Identifier: MIT
#include "report/run.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"

namespace dragonn::report {
namespace {

using Json = nlohmann::json;

/// Keys of an evaluation line that say where it stands rather than how good it is.
constexpr std::array<std::string_view, 6> kPlaceKeys{"kind", "step", "epoch", "split", "time", "time_ideal"};

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

/// Reads the resolved config as the trainer prints it: one `key = value` a line below [table] headers.
std::map<std::string, std::string> read_config(const std::filesystem::path& path) {
  std::map<std::string, std::string> config;
  std::string prefix;
  std::istringstream text(read_text_file(path));
  for (std::string raw; std::getline(text, raw);) {
    const std::string line = trimmed(raw);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[' && line.back() == ']') {
      prefix = line.substr(1, line.size() - 2) + ".";
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    std::string value = trimmed(line.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    config[printable(prefix + trimmed(line.substr(0, equals)))] = printable(value);
  }
  return config;
}

std::optional<double> number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// Returns a count's mean over ranks from {"mean": ..., "max": ...}, or a plain number.
std::optional<double> mean_over_ranks(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? number(*found, "mean") : number(object, key);
}

/// Returns selected entries over requested ones. Lines without k give it by the densities, which differ by the rounding
/// of k.
std::optional<double> selected_over_k(const Json& line) {
  const auto ratio = [](std::optional<double> a, std::optional<double> b) {
    return a && b && *b > 0 ? std::optional(*a / *b) : std::nullopt;
  };
  const auto k = number(line, "k");
  if (!k) return ratio(number(line, "density_local"), number(line, "density_target"));
  const auto selected = line.find("selected");
  if (selected == line.end() || !selected->is_array()) return ratio(mean_over_ranks(line, "selected"), k);
  double sum = 0;
  for (const Json& count : *selected) sum += count.is_number() ? count.get<double>() : 0.0;
  return selected->empty() ? std::nullopt : ratio(sum / static_cast<double>(selected->size()), k);
}

std::string text_or_empty(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? excerpt(found->get<std::string>()) : "";
}

/// Drops the points from `step` on: a run that was resumed from an older checkpoint repeats steps, and its later line
/// counts.
template <class Point>
void drop_from(std::vector<Point>& points, double step) {
  while (!points.empty() && points.back().step >= step) points.pop_back();
}

/// Reads what lines of steps and of evaluations have in common.
template <class Point>
Point read_point(const Json& line) {
  Point point;
  point.step = number(line, "step").value_or(0);
  point.epoch = number(line, "epoch").value_or(0);
  point.time = number(line, "time").value_or(0);
  point.time_ideal = number(line, "time_ideal");
  point.loss = number(line, "loss");
  return point;
}

void read_step(const Json& line, Run& run) {
  auto point = read_point<StepPoint>(line);
  for (const auto& [key, number_of_step] : kStepDetails) point.*number_of_step = mean_over_ranks(line, key);
  point.selected_over_k = selected_over_k(line);
  point.bits_per_entry = number(line, "bits_per_entry");
  point.drift = number(line, "drift");
  point.utilization = number(line, "utilization");
  point.bytes_of_step = mean_over_ranks(line, "bytes_sent").value_or(0);
  drop_from(run.steps, point.step);
  const StepPoint before = run.steps.empty() ? StepPoint{} : run.steps.back();
  // Without a running total, the steps since the last line are taken to have sent as much as this one.
  point.bytes = mean_over_ranks(line, "bytes_sent_total")
                    .value_or(before.bytes + point.bytes_of_step * (point.step - before.step));
  if (const auto seconds = line.find("seconds"); seconds != line.end() && seconds->is_object()) {
    for (const auto& [part, value] : seconds->items()) {
      if (value.is_number()) point.seconds[part] = value.get<double>();
    }
  }
  run.steps.push_back(std::move(point));
}

void read_eval(const Json& line, std::map<std::string, std::vector<EvalPoint>>& by_split) {
  auto point = read_point<EvalPoint>(line);
  point.split = text_or_empty(line, "split");
  for (const auto& [key, value] : line.items()) {
    if (key == "loss" || std::ranges::count(kPlaceKeys, key) || !value.is_number()) continue;
    point.metrics[printable(key)] = value.get<double>();
  }
  auto& points = by_split[point.split];
  drop_from(points, point.step);
  points.push_back(std::move(point));
}

/// Returns the bytes sent up to `step`: interpolated linearly between step lines, and continued beyond the last one.
double bytes_at(const std::vector<StepPoint>& steps, double step) {
  if (steps.empty()) return 0;
  const auto after = std::ranges::lower_bound(steps, step, {}, &StepPoint::step);
  if (after == steps.end()) return steps.back().bytes + (step - steps.back().step) * steps.back().bytes_of_step;
  const StepPoint before = after == steps.begin() ? StepPoint{} : *(after - 1);
  if (after->step <= before.step) return after->bytes;
  return before.bytes + (after->bytes - before.bytes) * (step - before.step) / (after->step - before.step);
}

void read_metrics(const std::filesystem::path& path, Run& run) {
  std::istringstream text(read_text_file(path));
  std::map<std::string, std::vector<EvalPoint>> by_split;
  std::size_t number_of_line = 0;
  for (std::string raw; std::getline(text, raw);) {
    ++number_of_line;
    if (trimmed(raw).empty()) continue;
    if (text.eof()) {
      run.warnings.push_back(
          "the last line of metrics.jsonl was cut short and is left out: the run lasts, or was killed");
      break;
    }
    const Json line = Json::parse(raw, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object()) {
      throw DataError(fmt::format("{}:{}: broken line: expected a JSON object", path.string(), number_of_line));
    }
    const std::string kind = text_or_empty(line, "kind");
    if (kind == "step") read_step(line, run);
    if (kind == "eval") read_eval(line, by_split);
  }
  if (by_split.empty()) return;
  const auto test = by_split.find("test");
  run.evals = std::move(test != by_split.end() ? test->second : by_split.begin()->second);
  for (EvalPoint& eval : run.evals) eval.bytes = bytes_at(run.steps, eval.step);
}

std::optional<Network> read_network(const Json& summary) {
  const auto found = summary.find("network");
  if (found == summary.end() || !found->is_object()) return std::nullopt;
  return Network{number(*found, "gbps"), number(*found, "latency_us"), text_or_empty(*found, "compute"),
                 text_or_empty(*found, "preset")};
}

RunSummary read_summary(const std::filesystem::path& path, std::vector<std::string>& warnings) {
  const std::string text = read_text_file(path);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const auto offset = static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    throw DataError(fmt::format("{}:{}: broken JSON at byte {}", path.string(),
                                1 + std::count(text.begin(), text.begin() + offset, '\n'), error.byte));
  } catch (const Json::out_of_range&) {
    throw DataError(fmt::format("{}: a number that no double holds", path.string()));
  }
  if (!json.is_object()) throw DataError(fmt::format("{}:1: expected a JSON object", path.string()));
  if (const auto found = json.find("warnings"); found != json.end() && found->is_array()) {
    for (const Json& warning : *found) {
      if (warning.is_string()) warnings.push_back(one_line_message(warning.get<std::string>()));
    }
  }
  return {number(json, "steps"),
          number(json, "seconds_total"),
          number(json, "throughput_samples_per_second"),
          number(json, "bytes_sent_total"),
          number(json, "density_mean"),
          number(json, "world_size"),
          text_or_empty(json, "backend"),
          text_or_empty(json, "time"),
          read_network(json)};
}

/// Returns the number of a config key; nothing for other values, such as "auto".
std::optional<double> config_number(const Run& run, const char* key) {
  const std::string text = run.setting(key);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string Run::setting(const std::string& key) const {
  const auto found = config.find(key);
  return found == config.end() ? "" : found->second;
}

bool Run::is_dense() const {
  return setting("compression.method") == "dense";
}

bool Run::is_virtual() const {
  if (summary && !summary->time.empty()) return summary->time == "virtual";
  if (!steps.empty() && steps.back().time_ideal) return true;
  // "auto" was local if no launcher was there, which the files of a run without a summary do not tell.
  return setting("network.model") == "alpha-beta" && setting("comm.backend") == "local";
}

std::optional<Network> Run::network() const {
  if (!is_virtual()) return std::nullopt;
  if (summary && summary->network) return summary->network;
  const std::string preset = setting("network.preset");
  return Network{config_number(*this, "network.gbps"), config_number(*this, "network.latency_us"),
                 setting("network.compute"), preset == "none" ? "" : preset};
}

Run load_run(const std::filesystem::path& folder) {
  Run run;
  run.path = std::filesystem::absolute(folder).lexically_normal();
  if (!run.path.has_filename()) run.path = run.path.parent_path();  // "runs/a/"
  run.name = run.path.filename().string();
  if (!std::filesystem::is_directory(folder)) {
    throw ConfigError(fmt::format("{}: no such run folder", folder.string()));
  }
  if (!std::filesystem::exists(folder / "metrics.jsonl")) {
    throw ConfigError(fmt::format("{}: not a run folder: it has no metrics.jsonl", folder.string()));
  }
  if (std::filesystem::exists(folder / "config.toml")) run.config = read_config(folder / "config.toml");
  read_metrics(folder / "metrics.jsonl", run);
  if (run.steps.empty()) run.warnings.push_back("metrics.jsonl has no steps yet");
  if (std::filesystem::exists(folder / "summary.json")) {
    run.summary = read_summary(folder / "summary.json", run.warnings);
  } else {
    run.warnings.push_back("there is no summary.json: the run lasts, or ended early");
  }
  return run;
}

std::vector<Fit> load_fits(const std::filesystem::path& file) {
  const std::string text = read_text_file(file);
  std::vector<Fit> fits;
  std::string input;
  try {
    for (const Json& row : Json::parse(text)) {
      const auto next = row.at("input").get<std::string>();
      const auto share = row.at("share").get<double>();
      // Shares descend: where they rise, one file was given twice.
      if (fits.empty() || next != input || share >= fits.back().share.back())
        fits.push_back({std::filesystem::path(next).filename().string(), {}, {}, {}, {}, {}});
      input = next;
      Fit& fit = fits.back();
      fit.share.push_back(share);
      fit.magnitude.push_back(row.at("magnitude").get<double>());
      fit.exponential.push_back(row.at("exponential").get<double>());
      fit.gamma.push_back(row.at("gamma").get<double>());
      fit.pareto.push_back(row.at("pareto").get<double>());
    }
  } catch (const Json::exception&) {
    throw DataError(fmt::format("{}: not a file that `dragonn-bench fit --json` writes", file.string()));
  }
  return fits;
}

}  // namespace dragonn::report

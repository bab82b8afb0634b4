// SPDX-License-Identifier: MIT
#include "trainer/metrics/summary.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/log.h"
#include "core/program.h"
#include "core/units_text.h"

namespace dragonn::trainer {
namespace {

using Json = nlohmann::ordered_json;

Json by_split(const std::optional<EvalRecord>& eval) {
  if (!eval) return Json::object();
  Json numbers{{"step", eval->step}, {"epoch", eval->epoch}, {"loss", eval->loss}};
  for (const Quality& quality : eval->qualities) numbers[quality.name] = quality.value;
  return {{eval->split, std::move(numbers)}};
}

Json to_json(const NetworkConfig& config) {
  const comm::NetworkModel network = config.modelled().value();
  Json json{{"gbps", network.gbps()}, {"latency_us", network.latency_us()}, {"compute", name_of(config.compute)}};
  if (config.preset != "none") json["preset"] = config.preset;
  return json;
}

Json to_json(const ByteRange& range) {
  return {{"low", range.low}, {"expected", range.expected}, {"high", range.high}};
}

Json to_json(const ByteForecast& forecast) {
  Json json = to_json(forecast.settled);
  if (forecast.first_steps == 0) return json;
  json["first_steps"] = to_json(forecast.first);
  json["first_steps"]["steps"] = forecast.first_steps;
  return json;
}

/// Returns the mean over workers and steps.
double bytes_per_step(const Summary& summary) {
  const double steps = static_cast<double>(std::max<std::uint64_t>(summary.steps, 1));
  return summary.bytes_sent_total / summary.world_size / steps;
}

/// Returns "1.7x less than dense"; empty if there is nothing to compare with.
std::string against_dense(const Summary& summary, const RunOutcome& outcome) {
  const double bytes = bytes_per_step(summary);
  if (outcome.is_dense || bytes <= 0 || outcome.dense_bytes <= 0) return "";
  const double ratio = outcome.dense_bytes / bytes;
  const bool is_less = ratio >= 1;
  const double times = is_less ? ratio : 1 / ratio;
  return fmt::format("{:.{}f}x {} than dense", times, times < 10 ? 1 : 0, is_less ? "less" : "more");
}

std::string headline(const Summary& summary, const RunOutcome& outcome) {
  std::string text =
      fmt::format("Finished in {}{}:", elapsed_text(summary.seconds_total), summary.network ? " of virtual time" : "");
  if (summary.final_eval) text += fmt::format(" {},", describe(summary.final_eval->qualities.front()));
  if (summary.world_size == 1) return text + " one worker, nothing exchanged";
  text += fmt::format(" {}/step", bytes_text(bytes_per_step(summary)));
  const std::string comparison = against_dense(summary, outcome);
  return comparison.empty() ? text : fmt::format("{} ({})", text, comparison);
}

std::string quality_line(const Summary& summary) {
  const std::vector<Quality>& qualities = summary.final_eval->qualities;
  std::string text = fmt::format("loss {:.4f}", summary.final_eval->loss);
  for (std::size_t i = 1; i < qualities.size(); ++i)
    text += ", " + describe(qualities[i]);  // the headline has the first
  if (!summary.best_eval) return text;
  return fmt::format("{}; best {} at epoch {:.4g}", text, describe(summary.best_eval->qualities.front()),
                     summary.best_eval->epoch);
}

std::string step_line(const Summary& summary, const RunOutcome& outcome) {
  const StepTimes& times = outcome.times;
  const auto steps = static_cast<double>(std::max<std::uint64_t>(summary.steps - outcome.first_step, 1));
  const auto part = [&](double seconds) { return percent_text(times.total() > 0 ? seconds / times.total() : 0); };
  std::string text = fmt::format("{:.3g} ms{}: computing {}", 1e3 * times.total() / steps,
                                 summary.network ? " (virtual)" : "", part(times.computing));
  if (times.overlapped) {
    text += fmt::format(", exposed exchange {} ({:.3g} ms of it hidden behind backward)", part(times.exposed),
                        1e3 * times.hidden / steps);
  } else {
    text += fmt::format(", selecting {}, exchanging {}", part(times.selecting), part(times.exchanging));
  }
  return text;
}

std::string traffic_line(const Summary& summary, const RunOutcome& outcome) {
  return fmt::format("{} sent per worker and step (dense: {}), {} in all", bytes_text(bytes_per_step(summary)),
                     bytes_text(outcome.dense_bytes), bytes_text(summary.bytes_sent_total));
}

}  // namespace

void write_summary(const std::filesystem::path& path, const Summary& summary) {
  Json json{{"final", by_split(summary.final_eval)},
            {"best", by_split(summary.best_eval)},
            {"steps", summary.steps},
            {"ended_by", summary.ended_by},
            {"seconds_total", summary.seconds_total},
            {"time", summary.network ? "virtual" : "wall"},
            {"throughput_samples_per_second", summary.throughput},
            {"bytes_sent_total", summary.bytes_sent_total},
            {"predicted_bytes_per_step", to_json(summary.predicted_bytes)},
            {"density_mean", summary.density_mean},
            {"tensors_sparse", summary.tensors_sparse},
            {"tensors_dense", summary.tensors_dense},
            {"world_size", summary.world_size},
            {"backend", summary.backend},
            {"device", summary.device},
            {"parameters_hash", summary.parameters_hash},
            {"config_hash", summary.config_hash},
            {"version", version()},
            {"warnings", summary.warnings}};
  if (summary.network) json["network"] = to_json(*summary.network);
  write_file_atomically(path, json.dump(2) + "\n");
}

std::vector<std::string> final_report(const Summary& summary, const RunOutcome& outcome) {
  std::vector<std::string> lines{headline(summary, outcome)};
  const auto add = [&](const char* name, const std::string& text) {
    lines.push_back(fmt::format("  {:<10} {}", name, text));
  };
  if (summary.network) {
    add("network", fmt::format("{}; {} of wall time", summary.network->describe(), elapsed_text(outcome.wall_seconds)));
  }
  if (summary.final_eval) add("test", quality_line(summary));
  if (summary.steps > outcome.first_step) add("step", step_line(summary, outcome));
  if (summary.throughput > 0) {
    add("speed", fmt::format("{:.0f} samples/s{}", summary.throughput, summary.network ? " (virtual)" : ""));
  }
  if (summary.world_size > 1) add("traffic", traffic_line(summary, outcome));
  if (summary.tensors_sparse > 0) {
    add("tensors", fmt::format("{} sparse at mean density {:.4g}, {} dense", summary.tensors_sparse,
                               summary.density_mean, summary.tensors_dense));
  }
  add("files", fmt::format("{}: summary.json, metrics.jsonl, log.txt", outcome.folder.string()));
  add("parameters", fmt::format("{} after {} steps", summary.parameters_hash, summary.steps));
  for (const std::string& warning : summary.warnings) add("warning", warning);
  return lines;
}

void log_final_report(const Summary& summary, const RunOutcome& outcome) {
  for (const std::string& line : final_report(summary, outcome)) log::info(0, "{}", line);
}

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
#include "trainer/metrics/run_report.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/log.h"
#include "core/program.h"
#include "core/units_text.h"

namespace dragonn::trainer {
namespace {

struct Field {
  int rank = 0;  ///< the field with the largest rank is left out first
  std::string text;
};

std::string joined(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) text += (text.empty() ? "" : "  ") + field.text;
  return text;
}

std::string speed(const ProgressNumbers& numbers) {
  return fmt::format("{:.{}f} samples/s{}", numbers.samples_per_second, numbers.samples_per_second < 10 ? 1 : 0,
                     numbers.is_time_virtual ? " (virtual)" : "");
}

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
  if (config.step_ms > 0) json["step_ms"] = config.step_ms;
  if (config.slowest > 1) json["slowest"] = config.slowest;
  if (config.preset != "none") json["preset"] = config.preset;
  if (config.workers_per_node > 1) json["workers_per_node"] = config.workers_per_node;
  if (!config.nodes.empty()) json["nodes"] = config.nodes;
  if (!config.up_gbps.empty()) json["up_gbps"] = config.up_gbps;
  if (!config.down_gbps.empty()) json["down_gbps"] = config.down_gbps;
  if (!config.file.empty()) json["file"] = config.file;
  return json;
}

Json to_json(const ByteRange& range) {
  return {{"low", range.low}, {"expected", range.expected}, {"high", range.high}};
}

double bytes_per_step(const Summary& summary) {
  const double steps = static_cast<double>(std::max<std::uint64_t>(summary.steps, 1));
  return summary.bytes_sent_total / summary.world_size / steps;
}

std::string headline(const Summary& summary, const RunOutcome& outcome) {
  std::string text =
      fmt::format("Finished in {}{}:", elapsed_text(summary.seconds_total), summary.network ? " of virtual time" : "");
  if (summary.final_eval) text += fmt::format(" {},", describe(summary.final_eval->qualities.front()));
  if (summary.world_size == 1) return text + " one worker, nothing exchanged";
  const double bytes = bytes_per_step(summary);
  text += fmt::format(" {}/step", bytes_text(bytes));
  if (outcome.is_dense || bytes <= 0 || outcome.dense_bytes <= 0) return text;
  const double ratio = outcome.dense_bytes / bytes, times = ratio >= 1 ? ratio : 1 / ratio;
  return fmt::format("{} ({:.{}f}x {} than dense)", text, times, times < 10 ? 1 : 0, ratio >= 1 ? "less" : "more");
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
    text += fmt::format(", exposed exchange {} ({:.3g} ms of it hidden behind computing)", part(times.exposed),
                        1e3 * times.hidden / steps);
  } else {
    text += fmt::format(", selecting {}, exchanging {}", part(times.selecting), part(times.exchanging));
  }
  return text;
}

}  // namespace

std::string progress_line(const ProgressNumbers& numbers, std::size_t columns) {
  const double done = static_cast<double>(numbers.step) / static_cast<double>(numbers.total_steps);
  std::vector<Field> fields{
      {6, fmt::format("{:3.0f} %", 100 * done)},
      {7, fmt::format("epoch {:.2f}/{}", numbers.epoch, numbers.total_epochs)},
      {0, fmt::format("step {}/{}", numbers.step, numbers.total_steps)},
      {1, fmt::format("loss {:.4f}", numbers.loss)},
      {3, speed(numbers)},
      {4, fmt::format("comm {}", percent_text(numbers.exposed_share))},
      {5, fmt::format("{}/step", bytes_text(numbers.bytes_per_step))},
      {2, fmt::format("ETA {}", elapsed_text(numbers.seconds_left))},
  };
  while (fields.size() > 1 && joined(fields).size() > columns) {
    fields.erase(std::ranges::max_element(fields, {}, &Field::rank));
  }
  return joined(fields).substr(0, columns);
}

std::string progress_note(const ProgressNumbers& numbers) {
  return fmt::format(
      "epoch {:.4g}/{}  step {}/{}  training loss {:.4f}  {}  {} sent per step  exposed communication {}",
      numbers.epoch, numbers.total_epochs, numbers.step, numbers.total_steps, numbers.loss, speed(numbers),
      bytes_text(numbers.bytes_per_step), percent_text(numbers.exposed_share));
}

void StepTimes::add(const StepTimers& timers, bool overlaps) {
  const auto sum = [&](auto... parts) { return (timers.seconds(parts) + ...); };
  computing += computing_seconds(timers);
  selecting +=
      sum(StepPart::kCompensate, StepPart::kSelect, StepPart::kCompensateSelect, StepPart::kDecode, StepPart::kSettle);
  exchanging += timers.seconds(StepPart::kExchange);
  exposed += timers.seconds(StepPart::kExchangeExposed);
  hidden += timers.seconds(StepPart::kExchangeHidden);
  if (steps > 0) backward += timers.seconds(StepPart::kBackward);
  ++steps;
  overlapped = overlaps;
}

double StepTimes::exposed_share() const {
  const double all = total();
  return all > 0 ? (overlapped ? exposed : exchanging) / all : 0.0;
}

ProgressReport::ProgressReport(const Run& run)
    : run_(run),
      numbers_{
          .total_steps = run.total_steps, .total_epochs = run.total_epochs, .is_time_virtual = run.is_time_virtual} {
  log::progress(fmt::format("step {}/{}", run.first_step, run.total_steps));
}

void ProgressReport::step(std::uint64_t step, double epoch, double samples_per_second, const StepSample& mine) {
  times_.add(mine.timers, run_.overlaps);
  if (numbers_.step == 0) noted_epoch_ = epoch;
  const double done = static_cast<double>(step - run_.first_step);
  numbers_.step = step;
  numbers_.epoch = epoch;
  numbers_.loss = mine.count > 0 ? mine.loss_sum / static_cast<double>(mine.count) : 0.0;
  numbers_.samples_per_second = samples_per_second;
  numbers_.exposed_share = times_.exposed_share();
  numbers_.seconds_left = clock_.now() / done * static_cast<double>(run_.total_steps - step);
  if (!knows_bytes_) numbers_.bytes_per_step = static_cast<double>(exchange_traffic(mine.traffic).bytes_sent);
  show();
}

void ProgressReport::record(const StepRecord& record) {
  numbers_.loss = record.loss;
  numbers_.bytes_per_step = run_.is_exchange_rare ? record.bytes_per_step : record.exchanged.bytes_sent.mean;
  knows_bytes_ = true;
  show();
  const bool is_new_epoch = std::floor(record.epoch) > std::floor(noted_epoch_);
  if (!is_new_epoch && clock_.now() - noted_at_ < kNoteSeconds) return;
  noted_at_ = clock_.now();
  noted_epoch_ = record.epoch;
  log::note("{}", progress_note(numbers_));
}

void ProgressReport::show() {
  const std::size_t columns = log::terminal_columns();
  if (columns < 2) return;
  const double now = clock_.now();
  if (now - shown_at_ < kLineSeconds && numbers_.step < run_.total_steps) return;
  shown_at_ = now;
  log::progress(progress_line(numbers_, columns - 1));  // the last column would wrap on some terminals
}

void write_summary(const std::filesystem::path& path, const Summary& summary) {
  Json json{{"final", by_split(summary.final_eval)},
            {"best", by_split(summary.best_eval)},
            {"steps", summary.steps},
            {"ended_by", summary.ended_by},
            {"seconds_total", summary.seconds_total},
            {"time", summary.network ? "virtual" : "wall"},
            {"throughput_samples_per_second", summary.throughput},
            {"utilization", summary.utilization},
            {"bytes_sent_total", summary.bytes_sent_total},
            {"predicted_bytes_per_step", to_json(summary.predicted_bytes.settled)},
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
  if (summary.lost_mass) {
    const LostMass& lost = *summary.lost_mass;
    json["lost_mass"] = {{"members", lost.members},
                         {"unknown", lost.unknown},
                         {"residual_sum", lost.sum},
                         {"residual_l1", lost.l1},
                         {"restored_sum", lost.restored_sum}};
  }
  const ByteForecast& forecast = summary.predicted_bytes;
  if (forecast.first_steps > 0) {
    Json& first = json["predicted_bytes_per_step"]["first_steps"] = to_json(forecast.first);
    first["steps"] = forecast.first_steps;
  }
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
  if (summary.world_size > 1) {
    add("traffic",
        fmt::format("{} sent per worker and step (dense: {}), {} in all", bytes_text(bytes_per_step(summary)),
                    bytes_text(outcome.dense_bytes), bytes_text(summary.bytes_sent_total)));
  }
  if (summary.tensors_sparse > 0) {
    add("tensors", fmt::format("{} sparse at mean density {:.4g}, {} dense", summary.tensors_sparse,
                               summary.density_mean, summary.tensors_dense));
  }
  add("files", fmt::format("{}: summary.json, metrics.jsonl, log.txt", outcome.folder.string()));
  add("parameters", fmt::format("{} after {} steps", summary.parameters_hash, summary.steps));
  for (const std::string& warning : summary.warnings) add("warning", warning);
  return lines;
}

}  // namespace dragonn::trainer

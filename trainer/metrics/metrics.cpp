// SPDX-License-Identifier: MIT
#include "trainer/metrics/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/file.h"

namespace dragonn::trainer {
namespace {

using Json = nlohmann::ordered_json;

/// The largest number of ranks that a line lists; more are summarized, so that a line stays readable.
constexpr std::size_t kMaxListedRanks = 64;

/// The fields that a rank sends to the others in a step, as doubles: the counters stay below 2^53.
enum Field : std::size_t {
  kLossSum,
  kCount,
  kResidualNorm,
  kListEntries,
  kListBytes,
  kDriftSquares,
  kDriftParameters,
  kExchanged,
  kFirstPhase = kExchanged + 3
};
constexpr std::size_t kFirstPart = kFirstPhase + 3 * comm::kPhaseNames.size();
constexpr std::size_t kFields = kFirstPart + kStepPartNames.size();

void pack_traffic(const comm::Traffic& traffic, double* fields) {
  fields[0] = static_cast<double>(traffic.bytes_sent);
  fields[1] = static_cast<double>(traffic.bytes_received);
  fields[2] = static_cast<double>(traffic.messages_sent);
}

std::array<double, kFields> pack(const StepSample& sample) {
  std::array<double, kFields> fields{};
  fields[kLossSum] = sample.loss_sum;
  fields[kCount] = static_cast<double>(sample.count);
  fields[kResidualNorm] = sample.residual_norm;
  fields[kListEntries] = static_cast<double>(sample.lists.entries);
  fields[kListBytes] = static_cast<double>(sample.lists.bytes);
  fields[kDriftSquares] = sample.drift.squares;
  fields[kDriftParameters] = sample.drift.parameters;
  pack_traffic(exchange_traffic(sample.traffic), &fields[kExchanged]);
  for (std::size_t phase = 0; phase < sample.traffic.size(); ++phase) {
    pack_traffic(sample.traffic[phase], &fields[kFirstPhase + 3 * phase]);
  }
  std::ranges::copy(sample.timers.all(), fields.begin() + kFirstPart);
  return fields;
}

struct Reduced {
  double sum = 0;
  MeanMax mean_max;
};

Reduced reduce(std::span<const double> table, std::size_t field) {
  Reduced reduced{.mean_max = {.max = table[field]}};
  for (; field < table.size(); field += kFields) {
    reduced.sum += table[field];
    reduced.mean_max.max = std::max(reduced.mean_max.max, table[field]);
  }
  reduced.mean_max.mean = reduced.sum / static_cast<double>(table.size() / kFields);
  return reduced;
}

Json to_json(const MeanMax& value) {
  return {{"mean", value.mean}, {"max", value.max}};
}

Json to_json(const TrafficRecord& traffic) {
  return {{"bytes_sent", to_json(traffic.bytes_sent)},
          {"bytes_received", to_json(traffic.bytes_received)},
          {"messages", to_json(traffic.messages)}};
}

/// Returns the traffic by phase; phases without messages are left out.
Json to_json(const std::array<TrafficRecord, comm::kPhaseNames.size()>& by_phase) {
  Json traffic = Json::object();
  for (std::size_t phase = 0; phase < by_phase.size(); ++phase) {
    if (by_phase[phase].messages.max > 0) traffic[comm::kPhaseNames[phase]] = to_json(by_phase[phase]);
  }
  return traffic;
}

template <class T>
double sum_of(const std::vector<T>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

template <class T>
Json min_mean_max(const std::vector<T>& values) {
  const auto [smallest, largest] = std::ranges::minmax(values);
  return {{"min", smallest}, {"mean", sum_of(values) / static_cast<double>(values.size())}, {"max", largest}};
}

/// Adds the numbers that only a sparsified step has.
void add_sparsity(Json& line, const StepRecord& record) {
  const exchange::ExchangeCounts& counts = record.counts;
  if (counts.numel == 0) return;
  const double selected = sum_of(counts.selected);
  const double ranks = static_cast<double>(counts.selected.size());
  const double numel = static_cast<double>(counts.numel);
  line["density_target"] = record.density_target;
  line["density_local"] = selected / ranks / numel;
  line["density_global"] = static_cast<double>(counts.global) / numel;
  line["k"] = counts.target;
  line["selected"] = counts.selected.size() <= kMaxListedRanks ? Json(counts.selected) : min_mean_max(counts.selected);
  if (!std::isnan(counts.threshold)) line["threshold"] = counts.threshold;
  if (!std::isnan(counts.lost_mass)) line["lost_mass"] = counts.lost_mass;
  if (record.bits_per_entry > 0) line["bits_per_entry"] = record.bits_per_entry;
  if (selected > 0) line["padding_overhead"] = static_cast<double>(counts.padded) / selected;
  if (counts.owned > 0)
    line["imbalance"] = static_cast<double>(counts.owned_padded) / static_cast<double>(counts.owned);
}

void add_time(Json& line, Moment time, TimeKind times) {
  line["time"] = time.seconds;
  if (times == TimeKind::kVirtual) line["time_ideal"] = time.ideal;
}

/// Adds the numbers of an object of a line below `path`; a list of numbers by ranks as min, mean and max.
void add_scalars(const std::string& path, const Json& json, std::vector<Scalar>& scalars) {
  if (json.is_number()) {
    scalars.push_back({path, json.get<double>()});
  } else if (json.is_array()) {
    add_scalars(path, min_mean_max(json.get<std::vector<double>>()), scalars);
  } else if (json.is_object()) {
    for (const auto& [key, value] : json.items()) add_scalars(path + "/" + key, value, scalars);
  }
}

/// Returns the numbers of a line: those of the line itself in `group`, and those of an object in a group of their own.
std::vector<Scalar> scalars_of(const std::string& group, const Json& line) {
  std::vector<Scalar> scalars;
  for (const auto& [key, value] : line.items()) {
    if (key != "step") add_scalars(value.is_structured() ? key : group + "/" + key, value, scalars);
  }
  return scalars;
}

}  // namespace

bool is_better(const EvalRecord& a, const EvalRecord& b) {
  const double x = a.qualities.front().value, y = b.qualities.front().value;
  if (std::isnan(y)) return !std::isnan(x);
  return larger_is_better(a.qualities.front().name) ? x > y : x < y;
}

double computing_seconds(const StepTimers& timers) {
  return timers.seconds(StepPart::kLoad) + timers.seconds(StepPart::kForward) + timers.seconds(StepPart::kBackward) +
         timers.seconds(StepPart::kOptimize);
}

comm::Traffic exchange_traffic(const comm::PhaseTraffic& traffic) {
  comm::Traffic total = traffic[static_cast<std::size_t>(comm::Phase::kExchange)];
  total += traffic[static_cast<std::size_t>(comm::Phase::kHeader)];
  return total;
}

void reduce_step(comm::Communicator& communicator, const StepSample& mine, StepRecord& record) {
  const std::array<double, kFields> fields = pack(mine);
  std::vector<double> table(kFields * static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const double>(fields), std::span<double>(table));
  const auto sum = [&](std::size_t field) { return reduce(table, field).sum; };
  const auto mean_max = [&](std::size_t field) { return reduce(table, field).mean_max; };
  const auto traffic = [&](std::size_t first) -> TrafficRecord {
    return {mean_max(first), mean_max(first + 1), mean_max(first + 2)};
  };
  record.loss = sum(kCount) > 0 ? sum(kLossSum) / sum(kCount) : 0.0;
  record.exchanged = traffic(kExchanged);
  for (std::size_t phase = 0; phase < record.by_phase.size(); ++phase) {
    record.by_phase[phase] = traffic(kFirstPhase + 3 * phase);
  }
  record.residual_norm = mean_max(kResidualNorm).mean;
  const comm::ListCounts lists{static_cast<std::uint64_t>(sum(kListEntries)),
                               static_cast<std::uint64_t>(sum(kListBytes))};
  record.drift = std::sqrt(sum(kDriftSquares) / sum(kDriftParameters));  // 0 / 0 is NaN
  record.bits_per_entry = lists.bits_per_entry();
  record.seconds.resize(kStepPartNames.size());
  for (std::size_t part = 0; part < kStepPartNames.size(); ++part)
    record.seconds[part] = mean_max(kFirstPart + part).max;
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path, std::uint64_t last_step, TimeKind times,
                             std::unique_ptr<EventFile> events)
    : path_(path), times_(times), events_(std::move(events)) {
  const std::string text = last_step > 0 && std::filesystem::exists(path) ? read_text_file(path) : "";
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // a torn last line: the run was killed while it wrote
    const auto line =
        nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                              text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, /*allow_exceptions=*/false);
    const auto step = line.find("step");
    const bool has_step = line.is_object() && step != line.end() && step->is_number();
    if (line.is_object() && (!has_step || step->get<double>() <= static_cast<double>(last_step)))
      kept.append(text, begin, end - begin + 1);
    begin = end + 1;
  }
  if (text.empty() || !text.starts_with(kept)) {
    write_file_atomically(path, kept);
  } else if (kept.size() < text.size() && ::truncate(path.c_str(), static_cast<off_t>(kept.size())) != 0) {
    throw SystemError(fmt::format("cannot shorten {}: {}", path.string(), std::strerror(errno)));
  }
  file_.open(path, std::ios::app);
  if (!file_) throw SystemError(fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
}

void MetricsWriter::write(const StepRecord& record) {
  Json line{{"kind", "step"},
            {"step", record.step},
            {"epoch", record.epoch},
            {"loss", record.loss},
            {"learning_rate", record.learning_rate}};
  add_sparsity(line, record);
  if (!std::isnan(record.residual_norm)) line["residual_norm"] = record.residual_norm;
  if (!std::isnan(record.drift)) line["drift"] = record.drift;
  line.update(to_json(record.exchanged));
  line["traffic"] = to_json(record.by_phase);
  line["bytes_sent_total"] = record.bytes_sent_total;
  line["bytes_per_step"] = record.bytes_per_step;
  line["utilization"] = record.utilization;
  Json seconds = Json::object();
  for (std::size_t part = 0; part < record.seconds.size(); ++part) {
    if (record.seconds[part] > 0) seconds[kStepPartNames[part]] = record.seconds[part];
  }
  line["seconds"] = std::move(seconds);
  add_time(line, record.time, times_);
  append_flushed(file_, path_, line.dump() + "\n");
  if (events_) events_->write_scalars(record.step, scalars_of("train", line));
}

void MetricsWriter::write(const EvalRecord& record) {
  Json line{
      {"kind", "eval"}, {"step", record.step}, {"epoch", record.epoch}, {"split", record.split}, {"loss", record.loss}};
  for (const Quality& quality : record.qualities) line[quality.name] = quality.value;
  add_time(line, record.time, times_);
  append_flushed(file_, path_, line.dump() + "\n");
  if (events_) events_->write_scalars(record.step, scalars_of(record.split, line));
}

void MetricsWriter::write_round(std::uint64_t step, std::span<const std::uint64_t> inner_steps) {
  const Json line{{"kind", "round"}, {"step", step}, {"inner_steps", inner_steps}};
  append_flushed(file_, path_, line.dump() + "\n");
}

void MetricsWriter::write_residual(std::uint64_t step, const MagnitudeCounts& magnitudes) {
  const std::vector<HistogramBar> bars = magnitudes.bars_of_logarithms();
  if (!events_ || bars.empty()) return;
  events_->write_histogram(step, "residual/log10_magnitude",
                           "decimal logarithm of the magnitudes in the residuals of all workers, zeros left out", bars);
}

}  // namespace dragonn::trainer

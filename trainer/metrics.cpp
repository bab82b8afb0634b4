// SPDX-License-Identifier: MIT
#include "trainer/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/file.h"

namespace dragonn::trainer {
namespace {

using Json = nlohmann::ordered_json;

/// Ranks beyond this are summarized: a line stays readable.
constexpr std::size_t kMaxListedRanks = 64;

/// What a rank tells the others of a step, as doubles: the counters stay below 2^53.
enum Field : std::size_t { kLossSum, kCount, kBytesSent, kBytesReceived, kMessages, kResidualNorm, kFirstVerb };
constexpr std::size_t kFields = kFirstVerb + kVerbNames.size();

std::array<double, kFields> pack(const StepSample& sample) {
  std::array<double, kFields> fields{};
  fields[kLossSum] = sample.loss_sum;
  fields[kCount] = static_cast<double>(sample.count);
  fields[kBytesSent] = static_cast<double>(sample.traffic.bytes_sent);
  fields[kBytesReceived] = static_cast<double>(sample.traffic.bytes_received);
  fields[kMessages] = static_cast<double>(sample.traffic.messages_sent);
  fields[kResidualNorm] = sample.residual_norm;
  std::ranges::copy(sample.timers.all(), fields.begin() + kFirstVerb);
  return fields;
}

/// A column of the table of all ranks' fields.
class Column {
 public:
  Column(std::span<const double> table, std::size_t field) : table_(table), field_(field) {}
  std::size_t ranks() const { return table_.size() / kFields; }
  double operator[](std::size_t rank) const { return table_[rank * kFields + field_]; }
  double sum() const {
    double total = 0;
    for (std::size_t rank = 0; rank < ranks(); ++rank) total += (*this)[rank];
    return total;
  }
  MeanMax mean_max() const {
    double largest = (*this)[0];
    for (std::size_t rank = 1; rank < ranks(); ++rank) largest = std::max(largest, (*this)[rank]);
    return {sum() / static_cast<double>(ranks()), largest};
  }

 private:
  std::span<const double> table_;
  std::size_t field_;
};

Json to_json(const MeanMax& value) {
  return {{"mean", value.mean}, {"max", value.max}};
}

Json selected_json(const std::vector<std::uint64_t>& selected) {
  if (selected.size() <= kMaxListedRanks) return selected;
  const auto [smallest, largest] = std::ranges::minmax(selected);
  double sum = 0;
  for (std::uint64_t count : selected) sum += static_cast<double>(count);
  return {{"min", smallest}, {"mean", sum / static_cast<double>(selected.size())}, {"max", largest}};
}

/// Numbers that only a sparsified step has.
void add_sparsity(Json& line, const StepRecord& record) {
  const ExchangeCounts& counts = record.counts;
  if (counts.numel == 0) return;
  double selected = 0;
  std::uint64_t largest = 0;
  for (std::uint64_t count : counts.selected) {
    selected += static_cast<double>(count);
    largest = std::max(largest, count);
  }
  const double ranks = static_cast<double>(counts.selected.size());
  const double numel = static_cast<double>(counts.numel);
  line["density_target"] = record.density_target;
  line["density_local"] = selected / ranks / numel;
  line["density_global"] = static_cast<double>(counts.global) / numel;
  line["k"] = counts.target;
  line["selected"] = selected_json(counts.selected);
  if (!std::isnan(counts.threshold)) line["threshold"] = counts.threshold;
  if (!std::isnan(counts.lost_mass)) line["lost_mass"] = counts.lost_mass;
  if (selected > 0) line["padding_overhead"] = ranks * static_cast<double>(largest) / selected;
}

}  // namespace

bool is_better(const EvalRecord& a, const EvalRecord& b) {
  const double x = a.qualities.front().value, y = b.qualities.front().value;
  return larger_is_better(a.qualities.front().name) ? x > y : x < y;
}

void reduce_step(comm::Communicator& communicator, const StepSample& mine, StepRecord& record) {
  const std::array<double, kFields> fields = pack(mine);
  std::vector<double> table(kFields * static_cast<std::size_t>(communicator.size()));
  communicator.allgather_values(std::span<const double>(fields), std::span<double>(table));
  const auto column = [&](std::size_t field) { return Column(table, field); };
  const double count = column(kCount).sum();
  record.loss = count > 0 ? column(kLossSum).sum() / count : 0.0;
  record.bytes_sent = column(kBytesSent).mean_max();
  record.bytes_received = column(kBytesReceived).mean_max();
  record.messages = column(kMessages).mean_max();
  record.residual_norm = column(kResidualNorm).mean_max().mean;
  record.seconds.resize(kVerbNames.size());
  for (std::size_t verb = 0; verb < kVerbNames.size(); ++verb) {
    record.seconds[verb] = column(kFirstVerb + verb).mean_max().max;
  }
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path, std::uint64_t last_step) : path_(path) {
  std::string kept;
  if (last_step > 0 && std::filesystem::exists(path)) {
    const std::string text = read_text_file(path);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      if (end == std::string::npos) break;  // a torn last line: the run was killed while it wrote
      const auto line =
          Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                      text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, /*allow_exceptions=*/false);
      if (line.is_object() && line.value("step", std::uint64_t{0}) <= last_step)
        kept.append(text, begin, end - begin + 1);
      begin = end + 1;
    }
  }
  write_file_atomically(path, kept);
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
  line["bytes_sent"] = to_json(record.bytes_sent);
  line["bytes_received"] = to_json(record.bytes_received);
  line["messages"] = to_json(record.messages);
  line["bytes_sent_total"] = record.bytes_sent_total;
  Json seconds = Json::object();
  for (std::size_t verb = 0; verb < record.seconds.size(); ++verb) {
    if (record.seconds[verb] > 0) seconds[kVerbNames[verb]] = record.seconds[verb];
  }
  line["seconds"] = std::move(seconds);
  line["time"] = record.time;
  write_line(line.dump());
}

void MetricsWriter::write(const EvalRecord& record) {
  Json line{{"kind", "eval"},
            {"step", record.step},
            {"epoch", record.epoch},
            {"split", record.split},
            {"loss", record.loss}};
  for (const Quality& quality : record.qualities) line[quality.name] = quality.value;
  line["time"] = record.time;
  write_line(line.dump());
}

void MetricsWriter::write_line(const std::string& line) {
  file_ << line << '\n' << std::flush;
  if (!file_) throw SystemError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
}

}  // namespace dragonn::trainer

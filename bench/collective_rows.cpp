// SPDX-License-Identifier: MIT
#include "bench/collective_rows.h"

#include <algorithm>

#include <fmt/format.h>

namespace dragonn::bench {
namespace {

nlohmann::ordered_json to_json(const trainer::MeanMax& value) {
  return {{"mean", value.mean}, {"max", value.max}};
}

/// share * a + (1 - share) * b.
ExchangeRecord mix(double share, const ExchangeRecord& a, const ExchangeRecord& b) {
  ExchangeRecord mixed;
  for (std::size_t i = 0; i < kQuantities; ++i) {
    mixed.values[i].mean = share * a.values[i].mean + (1 - share) * b.values[i].mean;
    mixed.values[i].max = share * a.values[i].max + (1 - share) * b.values[i].max;
  }
  return mixed;
}

}  // namespace

ExchangeRecord median(std::span<const ExchangeRecord> records) {
  DRAGONN_CHECK(!records.empty(), "the median of no steps");
  ExchangeRecord result{.step = records.front().step};
  const auto median_of = [&](std::size_t quantity, double trainer::MeanMax::*part) {
    std::vector<double> values;
    for (const ExchangeRecord& record : records) values.push_back(record.values[quantity].*part);
    return percentile(std::move(values), 0.5);
  };
  for (std::size_t i = 0; i < kQuantities; ++i) {
    result.values[i] = {median_of(i, &trainer::MeanMax::mean), median_of(i, &trainer::MeanMax::max)};
  }
  return result;
}

void CollectiveRows::add(const ExchangeCase& exchange_case, int ranks, std::span<const ExchangeRecord> records) {
  const std::size_t period = exchange_case.period();
  if (period == 1) return add_row(exchange_case, ranks, "step", median(records), records.size());
  std::vector<ExchangeRecord> recomputes, reuses;
  for (const ExchangeRecord& record : records) (record.step % period == 0 ? recomputes : reuses).push_back(record);
  if (!reuses.empty()) add_row(exchange_case, ranks, "reuse", median(reuses), reuses.size());
  if (!recomputes.empty()) add_row(exchange_case, ranks, "recompute", median(recomputes), recomputes.size());
  if (reuses.empty() || recomputes.empty()) return;
  add_row(exchange_case, ranks, "period", mix(1.0 / static_cast<double>(period), median(recomputes), median(reuses)),
          records.size());
}

void CollectiveRows::add_row(const ExchangeCase& exchange_case, int ranks, const std::string& phase,
                             const ExchangeRecord& record, std::size_t steps) {
  const trainer::ExchangeRules& rules = exchange_case.rules;
  const bool is_dense = !rules.buckets.compress;
  nlohmann::ordered_json row{{"collective", exchange_case.collective},
                             {"algorithm", nullptr},
                             {"sparsifier", rules.sparsifier.name},
                             {"phase", phase},
                             {"ranks", ranks},
                             {"numel", exchange_case.numel},
                             {"density", exchange_case.density},
                             {"backend", options_.backend},
                             {"network", options_.network_name},
                             {"steps", steps},
                             {"seconds", record[Quantity::kSeconds].max}};
  if (is_dense) row["algorithm"] = rules.dense.settings.text("algorithm");
  row["bytes_sent"] = to_json(record[Quantity::kBytesSent]);
  row["bytes_received"] = to_json(record[Quantity::kBytesReceived]);
  row["messages"] = to_json(record[Quantity::kMessagesSent]);
  row["messages_received"] = to_json(record[Quantity::kMessagesReceived]);
  row["header_bytes_sent"] = to_json(record[Quantity::kHeaderBytesSent]);
  row["header_messages"] = to_json(record[Quantity::kHeaderMessagesSent]);
  row["selected"] = to_json(record[Quantity::kSelected]);
  row["global"] = record[Quantity::kGlobal].max;
  if (options_.everything) {
    row["seconds_total"] = record[Quantity::kSecondsTotal].max;
    for (std::size_t verb = 0; verb < kVerbNames.size(); ++verb) {
      const double seconds = record.values[static_cast<std::size_t>(Quantity::kFirstVerb) + verb].max;
      row[fmt::format("seconds_{}", kVerbNames[verb])] = seconds;
    }
  }
  rows_.push_back(std::move(row));
}

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
#include "bench/exchange/collective_rows.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace dragonn::bench {
namespace {

nlohmann::ordered_json to_json(const trainer::MeanMax& value) {
  return {{"mean", value.mean}, {"max", value.max}};
}

/// Returns share * a + (1 - share) * b.
ExchangeRecord mix(double share, const ExchangeRecord& a, const ExchangeRecord& b) {
  ExchangeRecord mixed;
  for (std::size_t i = 0; i < kQuantities; ++i) {
    mixed.values[i].mean = share * a.values[i].mean + (1 - share) * b.values[i].mean;
    mixed.values[i].max = share * a.values[i].max + (1 - share) * b.values[i].max;
  }
  return mixed;
}

/// Adds the columns of --everything.
void add_parts(const ExchangeRecord& record, nlohmann::ordered_json& row) {
  row["seconds_total"] = record[Quantity::kSecondsTotal].max;
  for (const StepPart part : {StepPart::kCompensate, StepPart::kSelect, StepPart::kCompensateSelect,
                              StepPart::kExchange, StepPart::kDecode, StepPart::kSettle}) {
    const auto index = static_cast<std::size_t>(part);
    const double seconds = record.values[static_cast<std::size_t>(Quantity::kFirstVerb) + index].max;
    row[fmt::format("seconds_{}", kStepPartNames[index])] = seconds;
  }
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
  const auto expected = [&](const ExchangeRecord& record) {
    return exchange_case.predict(options_.backend, ranks, record);
  };
  const std::size_t period = exchange_case.period();
  if (period == 1) {
    const ExchangeRecord all = median(records);
    return add_row(exchange_case, ranks, {"step", records.size(), all, expected(all)});
  }
  std::vector<ExchangeRecord> recomputes, reuses;
  double of_bound = 0;
  for (const ExchangeRecord& record : records) {
    const bool computes = exchange_case.computes_threshold(record.step);
    (computes ? recomputes : reuses).push_back(record);
    if (computes) continue;
    const double max = std::max(record[Quantity::kBytesSent].max, record[Quantity::kBytesReceived].max);
    of_bound = std::max(of_bound, max / expected(record).max_bytes);
  }
  std::optional<Measured> reuse, recompute;
  if (!reuses.empty()) {
    const ExchangeRecord record = median(reuses);
    reuse = {"reuse", reuses.size(), record, expected(record), of_bound};
    add_row(exchange_case, ranks, *reuse);
  }
  if (!recomputes.empty()) {
    const ExchangeRecord record = median(recomputes);
    recompute = {"recompute", recomputes.size(), record, expected(record)};
    add_row(exchange_case, ranks, *recompute);
  }
  if (!reuse || !recompute) return;
  const double share = 1.0 / static_cast<double>(period);
  const auto mean = [&](double rare, double often) { return share * rare + (1 - share) * often; };
  const comm::Chain chain = share * recompute->expected.chain() + (1 - share) * reuse->expected.chain();
  add_row(exchange_case, ranks,
          {"period",
           records.size(),
           mix(share, recompute->record, reuse->record),
           {.bytes_sent = mean(recompute->expected.bytes_sent, reuse->expected.bytes_sent), .payload = chain}});
}

void CollectiveRows::add_row(const ExchangeCase& exchange_case, int ranks, const Measured& measured) {
  const exchange::ExchangeRules& rules = exchange_case.rules;
  const bool is_dense = !rules.buckets.compress;
  const ExchangeRecord& record = measured.record;
  const double seconds = record[Quantity::kSeconds].max;
  const double seconds_formula = options_.network ? measured.expected.seconds(*options_.network) : kUnknown;
  const double bytes = record[Quantity::kBytesSent].mean;
  nlohmann::ordered_json row{{"collective", exchange_case.collective},
                             {"algorithm", nullptr},
                             {"sparsifier", rules.sparsifier.name},
                             {"phase", measured.phase},
                             {"ranks", ranks},
                             {"numel", exchange_case.numel},
                             {"density", exchange_case.density},
                             {"backend", options_.backend},
                             {"network", options_.network_name},
                             {"latency_us", nullptr},
                             {"gbps", nullptr},
                             {"compute", options_.compute},
                             {"steps", measured.steps},
                             {"seconds", seconds},
                             {"seconds_formula", or_null(seconds_formula)},
                             {"of_formula", or_null(seconds / seconds_formula)},
                             {"bytes_sent", to_json(record[Quantity::kBytesSent])},
                             {"bytes_formula", or_null(measured.expected.bytes_sent)},
                             {"bytes_of_formula", or_null(bytes / measured.expected.bytes_sent)},
                             {"bytes_of_bound", or_null(measured.of_bound)},
                             {"bytes_received", to_json(record[Quantity::kBytesReceived])},
                             {"messages", to_json(record[Quantity::kMessagesSent])},
                             {"messages_received", to_json(record[Quantity::kMessagesReceived])},
                             {"header_bytes_sent", to_json(record[Quantity::kHeaderBytesSent])},
                             {"header_messages", to_json(record[Quantity::kHeaderMessagesSent])},
                             {"selected", to_json(record[Quantity::kSelected])},
                             {"global", or_null(record[Quantity::kGlobal].max)}};
  if (is_dense) row["algorithm"] = rules.dense.settings.text("algorithm");
  if (options_.network) {
    row["latency_us"] = options_.network->latency_us();
    row["gbps"] = options_.network->gbps();
  }
  if (options_.everything) add_parts(record, row);
  rows_.push_back(std::move(row));
}

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
#include "bench/exchange/collective_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace dragonn::bench {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

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

/// Returns each quantity's median over the steps, of its mean and of its maximum.
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

struct Measured {
  std::string phase;
  std::size_t steps = 0;
  ExchangeRecord record;
  comm::Prediction expected;
  double of_bound = kUnknown;  ///< the most that a rank moved in any of the steps, over the method's bound
};

nlohmann::ordered_json row_of(const CollectiveRowOptions& options, const ExchangeCase& exchange_case, int ranks,
                              const Measured& measured) {
  const exchange::ExchangeRules& rules = exchange_case.rules;
  const bool is_dense = !rules.buckets.compress;
  const auto& values = measured.record.values;
  const double seconds = values[kSeconds].max;
  const double seconds_formula = options.network ? measured.expected.seconds(*options.network) : kUnknown;
  const double bytes = values[kBytesSent].mean;
  nlohmann::ordered_json row{{"collective", exchange_case.collective},
                             {"algorithm", nullptr},
                             {"sparsifier", rules.sparsifier.name},
                             {"phase", measured.phase},
                             {"ranks", ranks},
                             {"numel", exchange_case.numel},
                             {"density", exchange_case.density},
                             {"backend", options.backend},
                             {"network", options.network_name},
                             {"latency_us", nullptr},
                             {"gbps", nullptr},
                             {"compute", options.compute},
                             {"steps", measured.steps},
                             {"seconds", seconds},
                             {"seconds_formula", or_null(seconds_formula)},
                             {"of_formula", or_null(seconds / seconds_formula)},
                             {"bytes_sent", to_json(values[kBytesSent])},
                             {"bytes_formula", or_null(measured.expected.bytes_sent)},
                             {"bytes_of_formula", or_null(bytes / measured.expected.bytes_sent)},
                             {"bytes_of_bound", or_null(measured.of_bound)},
                             {"bytes_received", to_json(values[kBytesReceived])},
                             {"messages", to_json(values[kMessagesSent])},
                             {"messages_received", to_json(values[kMessagesReceived])},
                             {"header_bytes_sent", to_json(values[kHeaderBytesSent])},
                             {"header_messages", to_json(values[kHeaderMessagesSent])},
                             {"selected", to_json(values[kSelected])},
                             {"global", or_null(values[kGlobal].max)}};
  if (is_dense) row["algorithm"] = rules.dense.settings.text("algorithm");
  if (options.network) {
    row["latency_us"] = options.network->latency_us();
    row["gbps"] = options.network->gbps();
  }
  if (!options.everything) return row;
  row["seconds_total"] = values[kSecondsTotal].max;
  for (const StepPart part : {StepPart::kCompensate, StepPart::kSelect, StepPart::kCompensateSelect,
                              StepPart::kExchange, StepPart::kDecode, StepPart::kSettle}) {
    const auto index = static_cast<std::size_t>(part);
    row[fmt::format("seconds_{}", kStepPartNames[index])] = values[kFirstPart + index].max;
  }
  return row;
}

}  // namespace

Rows collective_rows(const CollectiveRowOptions& options, const ExchangeCase& exchange_case, int ranks,
                     std::span<const ExchangeRecord> records) {
  const auto expected = [&](const ExchangeRecord& record) {
    return exchange_case.predict(options.backend, ranks, record);
  };
  const std::size_t period = exchange_case.period();
  if (period == 1) {
    const ExchangeRecord all = median(records);
    return {row_of(options, exchange_case, ranks, {"step", records.size(), all, expected(all)})};
  }
  std::vector<ExchangeRecord> recomputes, reuses;
  double of_bound = 0;
  for (const ExchangeRecord& record : records) {
    const bool computes = exchange_case.computes_threshold(record.step);
    (computes ? recomputes : reuses).push_back(record);
    if (computes) continue;
    const double max = std::max(record.values[kBytesSent].max, record.values[kBytesReceived].max);
    of_bound = std::max(of_bound, max / expected(record).max_bytes);
  }
  Rows rows;
  std::optional<Measured> reuse, recompute;
  if (!reuses.empty()) {
    const ExchangeRecord record = median(reuses);
    reuse = {"reuse", reuses.size(), record, expected(record), of_bound};
    rows.push_back(row_of(options, exchange_case, ranks, *reuse));
  }
  if (!recomputes.empty()) {
    const ExchangeRecord record = median(recomputes);
    recompute = {"recompute", recomputes.size(), record, expected(record)};
    rows.push_back(row_of(options, exchange_case, ranks, *recompute));
  }
  if (!reuse || !recompute) return rows;
  const double share = 1.0 / static_cast<double>(period);
  const auto mean = [&](double rare, double often) { return share * rare + (1 - share) * often; };
  const comm::Chain chain = share * recompute->expected.chain() + (1 - share) * reuse->expected.chain();
  const double bytes_sent = mean(recompute->expected.bytes_sent, reuse->expected.bytes_sent);
  rows.push_back(row_of(options, exchange_case, ranks,
                        {"period",
                         records.size(),
                         mix(share, recompute->record, reuse->record),
                         {.bytes_sent = bytes_sent, .payload = chain}}));
  return rows;
}

}  // namespace dragonn::bench

// SPDX-License-Identifier: MIT
#include "exchange/exchange_plan.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "compress/dct_basis.h"
#include "compress/sparsifier.h"
#include "core/units_text.h"
#include "exchange/bucket_form.h"

namespace dragonn::exchange {
namespace {

using comm::SparseCollectiveEntry;

const SparseCollectiveEntry& entry_of(const Component& collective) {
  return Registry<SparseCollectiveEntry>::instance().at(collective.name);
}

const Component& collective_of(const ExchangeRules& rules, ExchangeForm form) {
  return form == ExchangeForm::kDense ? rules.dense : rules.collective;
}

comm::ExchangeSizes sizes_of(const ExchangeRules& rules, const Bucket& bucket, ExchangeForm form, double density,
                             int world_size, const comm::AssumedCounts& counts) {
  if (form != ExchangeForm::kSparse) {
    comm::ExchangeSizes sizes = comm::expected_sizes(entry_of(rules.dense), {}, bucket.size, bucket.size, world_size);
    if (rules.codes_dense()) sizes.coding = codec::ListEstimate(rules.coding);
    return sizes;
  }
  comm::ExchangeSizes sizes = comm::expected_sizes(entry_of(rules.collective), exchanged_selection(rules), bucket.size,
                                                   target_of(rules, bucket, density), world_size, counts);
  sizes.coding = codec::ListEstimate(rules.coding);
  sizes.averages_senders = rules.averages_senders;
  return sizes;
}

/// Returns "55 to 120 kB".
std::string range_text(const ByteRange& range) {
  const std::string low = bytes_text(range.low), high = bytes_text(range.high);
  if (low == high) return high;
  // A unit that both have is told once.
  const std::size_t unit = low.rfind(' ');
  const bool is_shared = low.substr(unit) == high.substr(high.rfind(' '));
  return fmt::format("{} to {}", is_shared ? low.substr(0, unit) : low, high);
}

struct Forecasts {
  CountForecast selected;
  CountRange longest;
  CountForecast sum;
};

Forecasts forecasts_of(const ExchangeRules& rules, int world_size) {
  const auto& sparsifier = Registry<compress::SparsifierEntry>::instance().at(rules.sparsifier.name);
  const SparseCollectiveEntry& collective = entry_of(rules.collective);
  return {sparsifier.forecast(rules.sparsifier.settings), sparsifier.longest,
          collective.sum_forecast ? collective.sum_forecast(rules.collective.settings, world_size) : CountForecast{}};
}

/// Returns the bytes of an exchange of these sizes, in the memory of messages.
std::size_t held_bytes(const ExchangeRules& rules, ExchangeForm form, const comm::ExchangeSizes& sizes,
                       const Device& messages) {
  if (form == ExchangeForm::kQuantized) {  // the rank's code, those of all ranks, and their sum
    const std::size_t codes = static_cast<std::size_t>(sizes.ranks) + 1;
    return codes * code_bytes(rules.quantizer, sizes.numel) + sizes.numel * sizeof(float);
  }
  const Component& collective = collective_of(rules, form);
  // What the pass finds, and what is chosen of it.
  const std::size_t selected = form == ExchangeForm::kSparse ? comm::list_bytes(2 * sizes.selected) : 0;
  return entry_of(collective).memory(collective.settings, sizes, messages) + selected;
}

void add_memory(const ExchangeRules& rules, const BucketPlan& planned, double density, int world_size,
                const Device& messages, ExchangePlan& plan) {
  const auto sizes = [&](RunPart part, RangeEnd end) {
    return sizes_of(rules, planned.bucket, planned.form, density, world_size,
                    forecast_counts(rules, world_size, part, end));
  };
  const auto held = [&](RunPart part, RangeEnd end) {
    return held_bytes(rules, planned.form, sizes(part, end), messages);
  };
  plan.buffer_bytes += held(RunPart::kSettled, RangeEnd::kExpected);
  plan.max_bytes += std::max(held(RunPart::kSettled, RangeEnd::kHigh), held(RunPart::kFirstSteps, RangeEnd::kHigh));
  plan.staging_bytes += planned.form == ExchangeForm::kSparse
                            ? comm::result_bytes(sizes(RunPart::kSettled, RangeEnd::kExpected))
                            : planned.bucket.size * sizeof(float);  // a result is copied to the gradients' device
}

/// Adds what the sums inside a node send and hold: a copy of all gradients of a group at most as large as the model,
/// and of its own buckets what a worker receives, and their sum twice.
void add_node(std::span<const Bucket> buckets, std::span<const int> places, int workers, ExchangePlan& plan) {
  std::map<int, double> elements;
  double all = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const auto size = static_cast<double>(buckets[i].size);
    elements[places[i]] += size;
    all += size;
  }
  const auto by_size = [](const auto& place) { return place.second; };
  const double most = std::ranges::max_element(elements, {}, by_size)->second;
  const bool has_idle = workers > static_cast<int>(elements.size());
  plan.inside_bytes =
      sizeof(float) *
      (workers == 1 ? 0 : all - (has_idle ? 0 : std::ranges::min_element(elements, {}, by_size)->second));
  const auto bytes = static_cast<std::size_t>(sizeof(float) * (all + 3 * most));
  plan.buffer_bytes += bytes;
  plan.max_bytes += bytes;
}

}  // namespace

comm::AssumedCounts forecast_counts(const ExchangeRules& rules, int world_size, RunPart part, RangeEnd end) {
  if (!rules.selects()) return {};
  const Forecasts forecasts = forecasts_of(rules, senders_of(rules, world_size));
  const auto value = [&](const CountRange& range) {
    return end == RangeEnd::kLow ? range.low : end == RangeEnd::kHigh ? range.high : range.expected;
  };
  const bool first = part == RunPart::kFirstSteps;
  return {.selected = value(forecasts.selected.range(first)),
          .longest = value(forecasts.longest),
          .sum = value(forecasts.sum.range(first))};
}

std::uint64_t unsettled_steps(const ExchangeRules& rules, int world_size) {
  if (!rules.selects()) return 0;
  const Forecasts forecasts = forecasts_of(rules, senders_of(rules, world_size));
  return std::max(forecasts.selected.first_steps, forecasts.sum.first_steps);
}

comm::Prediction ExchangePlan::cost() const {
  std::map<std::tuple<int, std::size_t, ExchangeForm>, comm::Prediction> exchanges;
  for (const BucketPlan& planned : buckets) {
    const auto [exchange, is_first] = exchanges.try_emplace({planned.place, planned.group, planned.form}, planned.cost);
    if (!is_first) exchange->second.fuse_with(planned.cost);
  }
  std::map<int, comm::Prediction> places;
  for (const auto& [key, exchange] : exchanges) places[std::get<int>(key)].follow_with(exchange);
  comm::Prediction most;
  for (const auto& [place, total] : places) {
    if (total.bytes_sent >= most.bytes_sent) most = total;
  }
  return most;
}

ExchangeForm form_of(const ExchangeRules& rules, const Bucket& bucket, double density) {
  if (!bucket.sparse) return ExchangeForm::kDense;
  if (rules.quantizes()) return ExchangeForm::kQuantized;
  const bool is_bypassed = rules.bypasses(target_of(rules, bucket, density), bucket.size);
  return is_bypassed ? ExchangeForm::kDense : ExchangeForm::kSparse;
}

comm::Prediction predict_bucket(const ExchangeRules& rules, const Bucket& bucket, ExchangeForm form, double density,
                                int world_size, const std::optional<comm::AssumedCounts>& counts) {
  world_size = senders_of(rules, world_size);
  if (form == ExchangeForm::kQuantized) {  // each rank's code goes to all others
    const auto bytes = static_cast<double>(code_bytes(rules.quantizer, bucket.size));
    return {bytes * (world_size - 1), comm::allgather_chain(bytes, world_size)};
  }
  const Component& collective = collective_of(rules, form);
  return entry_of(collective)
      .predict(collective.settings, sizes_of(rules, bucket, form, density, world_size,
                                             counts ? *counts : forecast_counts(rules, world_size)));
}

comm::Prediction predict_step(const ExchangeRules& rules, const ExchangePlan& plan, double density, int world_size,
                              const comm::AssumedCounts& counts) {
  ExchangePlan assumed{.buckets = plan.buckets};
  for (BucketPlan& planned : assumed.buckets) {
    planned.cost = predict_bucket(rules, planned.bucket, planned.form, density, world_size, counts);
  }
  return assumed.cost();
}

ByteForecast forecast_bytes(const ExchangeRules& rules, const ExchangePlan& plan, double density, int world_size) {
  const auto bytes = [&](RunPart part, RangeEnd end) {
    return predict_step(rules, plan, density, world_size, forecast_counts(rules, world_size, part, end)).bytes_sent;
  };
  const auto range = [&](RunPart part) {
    return ByteRange{bytes(part, RangeEnd::kLow), bytes(part, RangeEnd::kExpected), bytes(part, RangeEnd::kHigh)};
  };
  ByteForecast forecast{.settled = range(RunPart::kSettled), .first_steps = unsettled_steps(rules, world_size)};
  if (forecast.first_steps > 0) forecast.first = range(RunPart::kFirstSteps);
  return forecast;
}

std::string describe(const ByteForecast& forecast) {
  std::string text = range_text(forecast.settled);
  if (forecast.first_steps > 0)
    text += fmt::format(", in the first {} steps {}", forecast.first_steps, range_text(forecast.first));
  return text;
}

void apply_choice(const ExchangeRules& rules, const BucketChoice& choice, int world_size, ExchangePlan& plan) {
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    BucketPlan& planned = plan.buckets[i];
    if (choice.is_sparse[i] || planned.form == ExchangeForm::kDense) continue;
    planned.form = ExchangeForm::kDense;
    planned.k = planned.bucket.size;
    planned.cost = predict_bucket(rules, planned.bucket, ExchangeForm::kDense, 1, world_size);
  }
}

std::vector<std::size_t> exchange_groups(const ExchangeRules& rules, std::span<const Bucket> buckets) {
  std::vector<std::size_t> numbers;
  for (const BucketGroup& group : make_groups(buckets, rules.fusion)) {
    const std::size_t number = numbers.empty() ? 0 : numbers.back() + 1;
    numbers.resize(group.end, number);
  }
  return numbers;
}

ExchangePlan plan_exchange(const ExchangeRules& rules, const ParameterArena& arena, double density, int world_size,
                           const Device& messages) {
  ExchangePlan plan;
  world_size = senders_of(rules, world_size);
  const std::vector<Bucket> buckets = make_buckets(arena, rules.buckets);
  const std::vector<std::size_t> groups = exchange_groups(rules, buckets);
  const std::vector<int> places = deal_out(buckets, rules.nodes ? rules.nodes->places() : 1);
  std::map<int, ExchangePlan> of_places;
  for (const Bucket& bucket : buckets) {
    BucketPlan& planned = plan.buckets.emplace_back();
    planned.bucket = bucket;
    planned.form = form_of(rules, bucket, density);
    planned.k = planned.form == ExchangeForm::kSparse ? target_of(rules, bucket, density) : bucket.size;
    planned.cost = predict_bucket(rules, bucket, planned.form, density, world_size);
    planned.group = groups[plan.buckets.size() - 1];
    planned.place = places[plan.buckets.size() - 1];
    ExchangePlan& of_place = of_places[planned.place];
    if (bucket.sparse || rules.codes_dense())
      of_place.state_bytes += memory_entry(rules).floats_per_element * bucket.size * sizeof(float);
    if (bucket.sparse && rules.dct) {
      of_place.buffer_bytes += compress::kDctFloatsPerElement * bucket.size * sizeof(float);
      of_place.max_bytes += compress::kDctFloatsPerElement * bucket.size * sizeof(float);
    }
    add_memory(rules, planned, density, world_size, messages, of_place);
  }
  for (const auto& [place, own] : of_places) {
    plan.state_bytes = std::max(plan.state_bytes, own.state_bytes);
    plan.buffer_bytes = std::max(plan.buffer_bytes, own.buffer_bytes);
    plan.max_bytes = std::max(plan.max_bytes, own.max_bytes);
    plan.staging_bytes = std::max(plan.staging_bytes, own.staging_bytes);
  }
  if (rules.nodes) add_node(buckets, places, rules.nodes->most(), plan);
  return plan;
}

comm::Prediction predict_dense_step(ExchangeRules rules, const ParameterArena& arena, int world_size) {
  rules.buckets = {.compress = false};
  rules.coding = {};  // what the run is compared with is exact
  rules.nodes.reset();
  return plan_exchange(rules, arena, /*density=*/1, world_size).cost();
}

}  // namespace dragonn::exchange

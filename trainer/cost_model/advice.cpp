// SPDX-License-Identifier: MIT
#include "trainer/cost_model/advice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dragonn::trainer {
namespace {

using Stages = std::vector<ExchangeStage>;

/// Another setting is named if it takes at most this share of the time.
constexpr double kClearly = 0.95;
/// The time of a step's computing in backward times: forward has half of backward's products.
constexpr double kStepPerBackward = 1.5;
/// The range of bandwidths in which break-even is searched.
constexpr double kLowestGbps = 1e-6, kHighestGbps = 1e6;

/// The stages of one step, in different ways of exchanging.
class Steps {
 public:
  /// @param counts of sparse exchanges; empty: the expected ones.
  Steps(const SelectionQuestion& question, const CostCurve& curve, double density,
        const std::optional<comm::AssumedCounts>& counts)
      : question_(question), curve_(curve), density_(density), counts_(counts) {}

  /// Returns the stages of dense exchanges as DDP makes them: neighbours share a bucket of up to 25 MiB.
  Stages dense(const std::string& algorithm) const {
    constexpr std::size_t kMax = exchange::kDenseBucketBytes / sizeof(float);
    exchange::ExchangeRules rules = question_.config.rules;
    rules.dense.settings.set("algorithm", algorithm);
    Stages stages;
    const auto add = [&](std::size_t numel, double ready) {
      constexpr auto kDense = exchange::ExchangeForm::kDense;
      stages.push_back({ready, local_seconds(rules, numel, kDense), predict(rules, {.size = numel}, kDense)});
    };
    std::size_t merged = 0;
    double ready = 0;
    for (std::size_t i = 0; i < question_.buckets.size(); ++i) {
      const std::size_t size = question_.buckets[i].size;
      if (merged > 0 && merged + size > kMax) {
        add(merged, ready);
        merged = 0;
      }
      merged += size;
      // A larger bucket of this run, such as the whole model, would be several of DDP's.
      const double before = ready, pieces = std::ceil(static_cast<double>(merged) / static_cast<double>(kMax));
      ready = ready_of(question_.ready, i);
      for (double piece = 1; merged > kMax; ++piece, merged -= kMax) {
        add(kMax, before + (ready - before) * piece / pieces);
      }
    }
    if (merged > 0) add(merged, ready);
    // A tree, or a fold, ends earlier on some ranks than on others. They begin to agree, and the next step, meanwhile:
    // on virtual clusters of 4 to 24 workers one latency of each step.
    const bool is_folded =
        algorithm == "rabenseifner" && !std::has_single_bit(static_cast<unsigned>(question_.world_size));
    return agreed(std::move(stages), algorithm == "native" || is_folded ? 1 : 0);
  }

  /// Returns the stages of a way: those of a group send all buckets of one form together.
  Stages of(const Way& way) const {
    const std::vector<std::size_t> groups = exchange::exchange_groups(way.rules, way.buckets);
    Stages stages;
    std::map<exchange::ExchangeForm, comm::Prediction> together;
    for (std::size_t i = 0; i < way.buckets.size(); ++i) {
      if (i == 0 || groups[i] != groups[i - 1]) stages.emplace_back();
      stages.back().ready = ready_of(way.ready, i);
      stages.back().local_seconds += local_seconds(way.rules, way.buckets[i].size, way.forms[i]);
      const comm::Prediction cost = predict(way.rules, way.buckets[i], way.forms[i]);
      const auto [form, is_first] = together.try_emplace(way.forms[i], cost);
      if (!is_first) form->second.fuse_with(cost);
      if (i + 1 < groups.size() && groups[i + 1] == groups[i]) continue;
      for (const auto& [name, exchange] : together) stages.back().messages.follow_with(exchange);
      together.clear();
    }
    return agreed(std::move(stages));
  }

 private:
  static double ready_of(const std::vector<double>& ready, std::size_t bucket) {
    return ready.empty() ? 1 : ready[bucket];
  }
  double local_seconds(const exchange::ExchangeRules& rules, std::size_t numel, exchange::ExchangeForm form) const {
    double seconds = 0;
    if (form == exchange::ExchangeForm::kDense) {
      seconds = curve_.dense_seconds(numel);
    } else {
      seconds = curve_.encode_seconds(numel) + curve_.decode_seconds(numel);
      if (form == exchange::ExchangeForm::kSparse && !rules.coding.is_raw()) seconds += curve_.coding_seconds(numel);
    }
    return seconds / question_.workers_per_node;
  }
  comm::Prediction predict(const exchange::ExchangeRules& rules, const exchange::Bucket& bucket,
                           exchange::ExchangeForm form) const {
    return exchange::predict_bucket(rules, bucket, form, density_, question_.world_size, counts_);
  }
  /// @param hidden messages of the word that take no time of their own.
  Stages agreed(Stages stages, double hidden = 0) const {
    comm::Chain word = comm::agreed_word_chain(question_.world_size);
    word.messages = std::max(0.0, word.messages - hidden);
    stages.push_back({.messages = {.header = word}});
    return stages;
  }

  const SelectionQuestion& question_;
  const CostCurve& curve_;
  double density_;
  std::optional<comm::AssumedCounts> counts_;
};

/// Returns the bandwidth next to the network's at which the sign of `difference` changes, upwards or downwards.
template <class Difference>
std::optional<double> break_even_gbps(double gbps, bool upwards, const Difference& difference) {
  constexpr double kFactor = 1.25;
  const bool sign = difference(gbps) < 0;
  double near = gbps, far = gbps;
  while ((difference(far) < 0) == sign) {
    near = far;
    far = upwards ? far * kFactor : far / kFactor;
    if (far < kLowestGbps || far > kHighestGbps) return std::nullopt;
  }
  for (int halving = 0; halving < 40; ++halving) {
    const double middle = std::sqrt(near * far);
    ((difference(middle) < 0) == sign ? near : far) = middle;
  }
  return far;
}

using DenseExchange = std::pair<std::string, Stages>;  // the algorithm, and its stages

/// Returns the time and the algorithm of the fastest dense exchange: the first one, unless a later one is clearly
/// faster.
std::pair<double, std::string> fastest(std::span<const DenseExchange> exchanges, const comm::NetworkModel& network,
                                       std::optional<double> backward_seconds) {
  std::pair<double, std::string> best;
  for (const auto& [algorithm, stages] : exchanges) {
    const double seconds = exposed_seconds(stages, network, backward_seconds);
    if (best.second.empty() || seconds < kClearly * best.first) best = {seconds, algorithm};
  }
  return best;
}

/// Names the best settings, if they are clearly faster than the run's.
void add_remedy(StepAdvice& advice, std::span<const Way> ways, const Steps& steps, const comm::NetworkModel& network,
                std::optional<double> backward_seconds) {
  const Way* best = nullptr;
  double lowest = 0;
  for (const Way& way : ways) {
    const double seconds = exposed_seconds(steps.of(way), network, way.overlaps() ? backward_seconds : std::nullopt);
    const double weighed = seconds * (1 + way.expected_gain);
    if (best != nullptr && weighed >= lowest) continue;
    best = &way;
    lowest = weighed;
    advice.remedy_seconds = seconds;
  }
  if (advice.remedy_seconds < kClearly * advice.sparse_seconds) {
    advice.remedy = fmt::format("{}", fmt::join(best->changes, ", "));
  } else {
    advice.remedy_seconds = 0;
  }
}

/// Adds the range of times that the run's own exchanges may take, where the number of entries is not known exactly.
template <class Seconds>
void add_ranges(StepAdvice& advice, const SelectionQuestion& question, const Seconds& seconds) {
  if (question.quantizes() || (question.counts && !question.counts_are_forecast)) return;
  const exchange::ExchangeRules& rules = question.config.rules;
  const auto range = [&](exchange::RunPart part) {
    const auto at = [&](exchange::RangeEnd end) {
      return seconds(exchange::forecast_counts(rules, question.world_size, part, end));
    };
    return SecondsRange{at(exchange::RangeEnd::kLow), at(exchange::RangeEnd::kHigh)};
  };
  advice.sparse_range = range(question.counts ? exchange::RunPart::kFirstSteps : exchange::RunPart::kSettled);
  if (question.counts) return;
  advice.first_steps = exchange::unsettled_steps(rules, question.world_size);
  if (advice.first_steps > 0) advice.first_range = range(exchange::RunPart::kFirstSteps);
}

}  // namespace

StepAdvice advise(const SelectionQuestion& question, const comm::NetworkModel& network, const DensityCosts& costs,
                  const CostCurve& curve, std::optional<double> backward_seconds) {
  const std::optional<double> measured = backward_seconds;
  // Where no exchange can hide behind backward, a dense one does not either.
  if (!question.config.update.scheme.entry().overlaps) backward_seconds.reset();
  const Steps steps(question, curve, costs.density, question.counts);
  const std::vector<Way> all = exchange_ways(question, network, costs, curve, backward_seconds.has_value());
  const Way& own = all.front();
  const auto beside = own.overlaps() ? backward_seconds : std::nullopt;
  std::vector<DenseExchange> dense;
  for (const std::string& algorithm : dense_algorithms(question)) dense.emplace_back(algorithm, steps.dense(algorithm));
  const auto [dense_seconds, algorithm] = fastest(dense, network, backward_seconds);
  // With two levels the ring of DDP, from worker to worker, is none of the exchanges between nodes.
  const double ring_seconds =
      question.workers_per_node > 1 ? dense_seconds : exposed_seconds(steps.dense("ring"), network, backward_seconds);
  StepAdvice advice{.dense_seconds = dense_seconds,
                    .dense_setting = algorithm == dense.front().first ? "" : dense_setting(algorithm),
                    .ring_seconds = ring_seconds,
                    .sparse_seconds = exposed_seconds(steps.of(own), network, beside),
                    .dense_overlaps = backward_seconds.has_value(),
                    .sparse_overlaps = beside.has_value()};
  advice.sparse_range = {advice.sparse_seconds, advice.sparse_seconds};
  add_ranges(advice, question, [&](const comm::AssumedCounts& counts) {
    return exposed_seconds(Steps(question, curve, costs.density, counts).of(own), network, beside);
  });
  // If everything is left dense, break-even is that of compressing everything.
  Way compared = own;
  if (std::ranges::count(own.forms, exchange::ExchangeForm::kDense) == std::ssize(own.forms)) {
    for (std::size_t i = 0; i < own.forms.size(); ++i)
      compared.forms[i] = exchange::form_of(own.rules, own.buckets[i], costs.density);
  }
  const Stages stages = steps.of(compared);
  const auto difference = [&](double gbps) {
    const auto other = comm::NetworkModel::from_units(network.latency_us(), gbps);
    return exposed_seconds(stages, other, beside) - fastest(dense, other, backward_seconds).first;
  };
  // Compressed exchanges send less, so if they are faster anywhere, it is on slow networks.
  advice.break_even_gbps = break_even_gbps(network.gbps(), difference(network.gbps()) < 0, difference);
  add_remedy(advice, all, steps, network, backward_seconds);
  advice.steps_per_exchange = question.config.update.steps_per_exchange();
  if (advice.steps_per_exchange > 1 && measured) {
    const double affordable = affordable_seconds(advice.steps_per_exchange, kStepPerBackward * *measured);
    const auto excess = [&](double gbps) {
      return exposed_seconds(steps.of(own), comm::NetworkModel::from_units(network.latency_us(), gbps)) - affordable;
    };
    advice.round_gbps = break_even_gbps(network.gbps(), excess(network.gbps()) >= 0, excess);
  }
  return advice;
}

std::vector<ExchangeStage> own_stages(const SelectionQuestion& question, const CostCurve& curve, double density) {
  return Steps(question, curve, density, question.counts).of(own_way(question, {.density = density}));
}

}  // namespace dragonn::trainer

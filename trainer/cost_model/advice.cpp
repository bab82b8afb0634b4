// SPDX-License-Identifier: MIT
#include "trainer/cost_model/advice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/cost_model/overlap_obstacle.h"

namespace dragonn::trainer {
namespace {

using Stages = std::vector<ExchangeStage>;

/// Another setting is named if it takes at most this share of the time.
constexpr double kClearly = 0.95;
/// A change of a setting must gain this share of a step's time, and one that changes results this share, or the fewer
/// changes are better.
constexpr double kGainOfChange = 0.01, kGainOfOtherResults = 0.02;
/// The range of bandwidths in which break-even is searched.
constexpr double kLowestGbps = 1e-6, kHighestGbps = 1e6;
/// The code of indices that is proposed.
constexpr const char* kShortIndices = "smallest";

/// A way of exchanging gradients: settings, and the buckets that follow from them.
struct Way {
  exchange::ExchangeRules rules;
  std::vector<exchange::Bucket> buckets;
  std::vector<double> ready;              ///< by bucket, the share of backward after which it is final
  std::vector<std::string> changes = {};  ///< the settings that are not the run's: "compression.overlap = true"
  double expected_gain = 0;               ///< share of a step's time that these changes must gain
  std::vector<exchange::ExchangeForm> forms = {};  ///< by bucket

  void change(double gain, std::string setting) {
    changes.push_back(std::move(setting));
    expected_gain += gain;
  }
  bool overlaps() const { return rules.fusion.overlaps; }
  bool has(exchange::ExchangeForm form) const { return std::ranges::count(forms, form) > 0; }
};

std::size_t total_bytes(std::span<const exchange::Bucket> buckets) {
  std::size_t bytes = 0;
  for (const exchange::Bucket& bucket : buckets) bytes += bucket.size * sizeof(float);
  return bytes;
}

bool same_slices(std::span<const exchange::Bucket> a, std::span<const exchange::Bucket> b) {
  return std::ranges::equal(a, b, [](const exchange::Bucket& x, const exchange::Bucket& y) {
    return x.size == y.size && x.sparse == y.sparse;
  });
}

std::string dense_setting(const std::string& algorithm) {
  return fmt::format("comm.dense_algorithm = \"{}\"", algorithm);
}

/// The ways of exchanging that the advice knows.
class Ways {
 public:
  /// @param costs decided, as the run follows them.
  Ways(const SelectionQuestion& question, const comm::NetworkModel& network, const DensityCosts& costs,
       const CostCurve& curve, bool may_overlap)
      : question_(question), network_(network), costs_(costs), curve_(curve), may_overlap_(may_overlap) {}

  /// Returns all ways, the run's own first.
  std::vector<Way> all() const {
    std::vector<Way> ways{own()};
    add(ways, [&](const Way& way) { return other_buckets(way); });
    add(ways, [&](const Way& way) { return wider_fusion(way); });
    add(ways, [&](const Way& way) { return other_overlap(way); });
    add(ways, [&](const Way& way) { return shorter_indices(way); });
    std::for_each(ways.begin() + 1, ways.end(), [&](Way& way) { choose_forms(way); });
    add(ways, [&](const Way& way) { return other_algorithms(way); });
    return ways;
  }
  /// Returns the dense algorithms whose cost is known, the run's own first.
  std::vector<std::string> algorithms() const {
    const std::string& own = question_.config.rules.dense.settings.text("algorithm");
    std::vector<std::string> names{own};
    if (question_.config.comm.backend == Backend::kNccl) return names;  // NCCL chooses
    for (const char* name : choices(comm::DenseAlgorithm())) {
      const bool is_known = question_.native_is_tree || std::string_view(name) != "native";
      if (name != own && is_known) names.emplace_back(name);
    }
    return names;
  }

 private:
  template <class Alternatives>
  static void add(std::vector<Way>& ways, const Alternatives& alternatives) {
    const std::size_t count = ways.size();
    for (std::size_t i = 0; i < count; ++i) {
      for (Way& way : alternatives(ways[i])) ways.push_back(std::move(way));
    }
  }

  /// Returns the run's own way, with its decisions.
  Way own() const {
    Way way{.rules = question_.config.rules, .buckets = {}, .ready = question_.ready};
    way.buckets.assign(question_.buckets.begin(), question_.buckets.end());
    way.rules.fusion.overlaps = question_.overlaps;
    set_forms(way, costs_);
    return way;
  }

  /// Decides the forms of the buckets as a run with these settings would.
  void choose_forms(Way& way) const {
    DensityCosts costs{.density = costs_.density};
    if (selects_by_cost(question_.config)) {
      const CostModel model(network_, way.rules, question_.world_size, question_.counts);
      costs = model.costs(way.buckets, curve_, costs_.density);
      choose_sparse(costs.tensors, costs.groups);
    }
    set_forms(way, costs);
  }

  /// @param costs of the tensors that were decided; if there are none all of them are compressed.
  static void set_forms(Way& way, const DensityCosts& costs) {
    std::size_t tensor = 0;
    way.forms.clear();
    for (const exchange::Bucket& bucket : way.buckets) {
      const bool is_left = bucket.sparse && !costs.tensors.empty() && !costs.tensors[tensor++].is_sparse;
      way.forms.push_back(is_left ? exchange::ExchangeForm::kDense
                                  : exchange::form_of(way.rules, bucket, costs.density));
    }
  }

  /// Returns the way with the whole model, or each tensor, in a bucket, and with vectors in them or not.
  std::vector<Way> other_buckets(const Way& way) const {
    using Grouping = exchange::BucketRules::Grouping;
    std::vector<Way> others;
    if (question_.arena == nullptr) return others;
    const ParameterArena& arena = *question_.arena;
    const bool has_vectors = arena.matrix_size() < arena.size();
    const exchange::BucketRules& rules = way.rules.buckets;
    std::vector<Grouping> groupings{rules.grouping};
    for (const Grouping grouping : {Grouping::kTensor, Grouping::kModel}) {
      const bool is_too_large =
          grouping == Grouping::kModel && arena.size() >= std::numeric_limits<std::uint32_t>::max();
      if (grouping != rules.grouping && !is_too_large) groupings.push_back(grouping);
    }
    for (const Grouping grouping : groupings) {
      for (const bool vectors : {false, true}) {
        if (!has_vectors && vectors != rules.include_vectors) continue;
        Way other = way;
        other.rules.buckets.grouping = grouping;
        other.rules.buckets.include_vectors = vectors;
        other.buckets = exchange::make_buckets(arena, other.rules.buckets);
        if (same_slices(other.buckets, way.buckets)) continue;
        other.ready = ready_shares(question_.layers, other.buckets);
        if (grouping != rules.grouping)
          other.change(kGainOfOtherResults,
                       fmt::format("compression.bucket = \"{}\"", grouping == Grouping::kModel ? "model" : "tensor"));
        // With another bucket "auto" may mean another value than now.
        if (has_vectors && (grouping != rules.grouping || vectors != rules.include_vectors))
          other.change(kGainOfOtherResults,
                       fmt::format("compression.include_vectors = \"{}\"", vectors ? "yes" : "no"));
        others.push_back(std::move(other));
      }
    }
    return others;
  }

  /// Returns the way with all buckets in one group.
  std::vector<Way> wider_fusion(const Way& way) const {
    constexpr double kDefaultMib = 25, kMib = 1 << 20;
    Way other = way;
    const double mebibytes = std::max(kDefaultMib, std::ceil(static_cast<double>(total_bytes(way.buckets)) / kMib));
    other.rules.fusion.bytes = static_cast<std::size_t>(mebibytes * kMib);
    if (exchange::exchange_groups(other.rules, way.buckets) == exchange::exchange_groups(way.rules, way.buckets))
      return {};
    other.change(kGainOfChange, fmt::format("compression.fusion_mib = {}", mebibytes));
    return {std::move(other)};
  }

  /// Returns the way with or without overlap, where that makes a difference.
  std::vector<Way> other_overlap(const Way& way) const {
    if (!may_overlap_) return {};
    Way other = way;
    other.rules.fusion.overlaps = !way.overlaps();
    const std::vector<exchange::Bucket> slices =
        exchange::group_slices(way.buckets, exchange::make_groups(way.buckets, other.rules.fusion));
    if (other.overlaps() && question_.arena != nullptr &&
        !overlap_obstacle(question_.config, *question_.arena, slices).empty())
      return {};
    other.change(kGainOfChange, fmt::format("compression.overlap = {}", other.overlaps()));
    return {std::move(other)};
  }

  /// Returns the way with a code of indices, which loses nothing.
  std::vector<Way> shorter_indices(const Way& way) const {
    const bool may_code = way.rules.coding.is_raw() && question_.config.comm.backend != Backend::kNccl &&
                          curve_.knows_coding() && exchange::sends_indices(way.rules);
    if (!may_code) return {};
    Way other = way;
    other.rules.coding.indices = {kShortIndices, {}};
    other.change(kGainOfChange, fmt::format("compression.codec.indices = \"{}\"", kShortIndices));
    return {std::move(other)};
  }

  /// Returns the way with other algorithms for its dense buckets.
  std::vector<Way> other_algorithms(const Way& way) const {
    std::vector<Way> others;
    if (!way.has(exchange::ExchangeForm::kDense)) return others;
    for (const std::string& algorithm : algorithms()) {
      if (algorithm == way.rules.dense.settings.text("algorithm")) continue;
      Way& other = others.emplace_back(way);
      other.rules.dense.settings.set("algorithm", algorithm);
      other.change(kGainOfOtherResults, dense_setting(algorithm));
    }
    return others;
  }

  const SelectionQuestion& question_;
  const comm::NetworkModel& network_;
  const DensityCosts& costs_;
  const CostCurve& curve_;
  bool may_overlap_;
};

/// The stages of one step, in different ways of exchanging.
class Steps {
 public:
  Steps(const SelectionQuestion& question, const CostCurve& curve, double density)
      : Steps(question, curve, density, question.counts) {}
  /// @param counts of sparse exchanges; empty: the expected ones.
  Steps(const SelectionQuestion& question, const CostCurve& curve, double density,
        const std::optional<comm::AssumedCounts>& counts)
      : question_(question), curve_(curve), density_(density), counts_(counts) {}

  /// Returns the stages of dense exchanges as DDP makes them: neighbours share a bucket of up to 25 MiB.
  Stages dense(const std::string& algorithm) const {
    constexpr std::size_t kMost = exchange::kDenseBucketBytes / sizeof(float);
    exchange::ExchangeRules rules = question_.config.rules;
    rules.dense.settings.set("algorithm", algorithm);
    Stages stages;
    const auto add = [&](std::size_t numel, double ready) {
      stages.push_back({ready, curve_.dense_seconds(numel), predict(rules, numel, exchange::ExchangeForm::kDense)});
    };
    std::size_t merged = 0;
    double ready = 0;
    for (std::size_t i = 0; i < question_.buckets.size(); ++i) {
      const std::size_t size = question_.buckets[i].size;
      if (merged > 0 && merged + size > kMost) {
        add(merged, ready);
        merged = 0;
      }
      merged += size;
      // A larger bucket of this run, such as the whole model, would be several of DDP's.
      const double before = ready, pieces = std::ceil(static_cast<double>(merged) / static_cast<double>(kMost));
      ready = ready_of(question_.ready, i);
      for (double piece = 1; merged > kMost; ++piece, merged -= kMost) {
        add(kMost, before + (ready - before) * piece / pieces);
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
      const std::size_t numel = way.buckets[i].size;
      stages.back().ready = ready_of(way.ready, i);
      stages.back().local_seconds += local_seconds(way.rules, numel, way.forms[i]);
      const comm::Prediction cost = predict(way.rules, numel, way.forms[i]);
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
    if (form == exchange::ExchangeForm::kDense) return curve_.dense_seconds(numel);
    const bool is_coded = form == exchange::ExchangeForm::kSparse && !rules.coding.is_raw();
    return curve_.encode_seconds(numel) + curve_.decode_seconds(numel) + (is_coded ? curve_.coding_seconds(numel) : 0);
  }
  comm::Prediction predict(const exchange::ExchangeRules& rules, std::size_t numel, exchange::ExchangeForm form) const {
    return exchange::predict_bucket(rules, numel, form, density_, question_.world_size, counts_);
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

/// A dense exchange by one algorithm.
struct DenseExchange {
  std::string algorithm;
  Stages stages;
};

/// Returns the time and the algorithm of the fastest dense exchange: the first one, unless a later one is clearly
/// faster.
std::pair<double, std::string> fastest(std::span<const DenseExchange> exchanges, const comm::NetworkModel& network,
                                       std::optional<double> backward_seconds) {
  std::pair<double, std::string> best;
  for (const DenseExchange& exchange : exchanges) {
    const double seconds = exposed_seconds(exchange.stages, network, backward_seconds);
    if (best.second.empty() || seconds < kClearly * best.first) best = {seconds, exchange.algorithm};
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
  const Ways ways(question, network, costs, curve, backward_seconds.has_value());
  const Steps steps(question, curve, costs.density);
  const std::vector<Way> all = ways.all();
  const Way& own = all.front();
  const auto beside = own.overlaps() ? backward_seconds : std::nullopt;
  std::vector<DenseExchange> dense;
  for (const std::string& algorithm : ways.algorithms()) dense.push_back({algorithm, steps.dense(algorithm)});
  const auto [dense_seconds, algorithm] = fastest(dense, network, backward_seconds);
  StepAdvice advice{.dense_seconds = dense_seconds,
                    .dense_setting = algorithm == dense.front().algorithm ? "" : dense_setting(algorithm),
                    .ring_seconds = exposed_seconds(steps.dense("ring"), network, backward_seconds),
                    .sparse_seconds = exposed_seconds(steps.of(own), network, beside),
                    .dense_overlaps = backward_seconds.has_value(),
                    .sparse_overlaps = beside.has_value()};
  advice.sparse_range = {advice.sparse_seconds, advice.sparse_seconds};
  add_ranges(advice, question, [&](const comm::AssumedCounts& counts) {
    return exposed_seconds(Steps(question, curve, costs.density, counts).of(own), network, beside);
  });
  // If everything is left dense, break-even is that of compressing everything.
  Way compared = own;
  if (std::ranges::all_of(own.forms,
                          [](exchange::ExchangeForm form) { return form == exchange::ExchangeForm::kDense; })) {
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
  return advice;
}

}  // namespace dragonn::trainer

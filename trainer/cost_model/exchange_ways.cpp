// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "trainer/cost_model/advice.h"
#include "trainer/cost_model/cost_model.h"

namespace dragonn::trainer {
namespace {

/// A change of a setting must gain this share of a step's time, and one that changes results this share, or the fewer
/// changes are better.
constexpr double kGainOfChange = 0.01, kGainOfOtherResults = 0.02;
/// The code of indices that is proposed.
constexpr const char* kShortIndices = "smallest";

/// Decides the forms of a way's buckets.
/// @param costs of the tensors that were decided; if there are none all of them are compressed.
void set_forms(Way& way, const DensityCosts& costs) {
  std::size_t tensor = 0;
  way.forms.clear();
  for (const exchange::Bucket& bucket : way.buckets) {
    const bool is_left = bucket.sparse && !costs.tensors.empty() && !costs.tensors[tensor++].is_sparse;
    way.forms.push_back(is_left ? exchange::ExchangeForm::kDense : exchange::form_of(way.rules, bucket, costs.density));
  }
}

class Ways {
 public:
  Ways(const SelectionQuestion& question, const comm::NetworkModel& network, const DensityCosts& costs,
       const CostCurve& curve, bool may_overlap)
      : question_(question), network_(network), costs_(costs), curve_(curve), may_overlap_(may_overlap) {}

  /// Returns all ways, the run's own first.
  std::vector<Way> all() const {
    std::vector<Way> ways{own_way(question_, costs_)};
    add(ways, [&](const Way& way) { return other_buckets(way); });
    add(ways, [&](const Way& way) { return wider_fusion(way); });
    add(ways, [&](const Way& way) { return other_overlap(way); });
    add(ways, [&](const Way& way) { return shorter_indices(way); });
    std::for_each(ways.begin() + 1, ways.end(), [&](Way& way) { choose_forms(way); });
    add(ways, [&](const Way& way) { return other_algorithms(way); });
    return ways;
  }

 private:
  template <class Alternatives>
  static void add(std::vector<Way>& ways, const Alternatives& alternatives) {
    const std::size_t count = ways.size();
    for (std::size_t i = 0; i < count; ++i) {
      for (Way& way : alternatives(ways[i])) ways.push_back(std::move(way));
    }
  }

  /// Decides the forms of the buckets as a run with these settings would.
  void choose_forms(Way& way) const {
    DensityCosts costs{.density = costs_.density};
    if (selects_by_cost(question_.config)) {
      const CostModel model{network_, way.rules, question_.world_size, question_.counts};
      costs = model.costs(way.buckets, curve_, costs_.density);
    }
    set_forms(way, costs);
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
        const auto is_same = [](const exchange::Bucket& a, const exchange::Bucket& b) {
          return a.size == b.size && a.sparse == b.sparse;
        };
        if (std::ranges::equal(other.buckets, way.buckets, is_same)) continue;
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
    double bytes = 0;
    for (const exchange::Bucket& bucket : way.buckets) bytes += static_cast<double>(bucket.size * sizeof(float));
    const double mebibytes = std::max(kDefaultMib, std::ceil(bytes / kMib));
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
    for (const std::string& algorithm : dense_algorithms(question_)) {
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

}  // namespace

Way own_way(const SelectionQuestion& question, const DensityCosts& costs) {
  Way way{.rules = question.config.rules, .buckets = {}, .ready = question.ready};
  way.buckets.assign(question.buckets.begin(), question.buckets.end());
  way.rules.fusion.overlaps = question.overlaps;
  set_forms(way, costs);
  return way;
}

std::vector<Way> exchange_ways(const SelectionQuestion& question, const comm::NetworkModel& network,
                               const DensityCosts& costs, const CostCurve& curve, bool may_overlap) {
  return Ways(question, network, costs, curve, may_overlap).all();
}

std::vector<std::string> dense_algorithms(const SelectionQuestion& question) {
  const std::string& own = question.config.rules.dense.settings.text("algorithm");
  std::vector<std::string> names{own};
  if (question.config.comm.backend == Backend::kNccl) return names;  // NCCL chooses
  for (const char* name : choices(comm::DenseAlgorithm())) {
    const bool is_known = question.native_is_tree || std::string_view(name) != "native";
    if (name != own && is_known) names.emplace_back(name);
  }
  return names;
}

std::string dense_setting(const std::string& algorithm) {
  return fmt::format("comm.dense_algorithm = \"{}\"", algorithm);
}

}  // namespace dragonn::trainer

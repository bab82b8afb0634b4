// SPDX-License-Identifier: MIT
#include "trainer/cost_model/advice.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dragonn::trainer {
namespace {

/// Another setting is named if it takes at most this share of the time.
constexpr double kClearly = 0.9;
/// The range of bandwidths in which break-even is searched.
constexpr double kLowestGbps = 1e-6, kHighestGbps = 1e6;

/// The stages of one step, in different ways of exchanging.
class Ways {
 public:
  Ways(const SelectionQuestion& question, const DensityCosts& costs, const CostCurve& curve)
      : question_(question), costs_(costs), curve_(curve), rules_(question.config.rules) {}

  /// Returns the stages of dense exchanges as DDP makes them: neighbours share a bucket of up to 25 MiB.
  std::vector<ExchangeStage> dense() const {
    constexpr std::size_t kMost = kDenseBucketBytes / sizeof(float);
    std::vector<ExchangeStage> stages;
    std::size_t merged = 0;
    double ready = 0;
    for (std::size_t i = 0; i < question_.buckets.size(); ++i) {
      const std::size_t size = question_.buckets[i].size;
      if (merged > 0 && merged + size > kMost) {
        stages.push_back(dense_stage(merged, ready));
        merged = 0;
      }
      merged += size;
      // A larger bucket of this run, such as the whole model, would be several of DDP's.
      const double before = ready, pieces = std::ceil(static_cast<double>(merged) / static_cast<double>(kMost));
      ready = ready_of(i);
      for (double piece = 1; merged > kMost; ++piece, merged -= kMost) {
        stages.push_back(dense_stage(kMost, before + (ready - before) * piece / pieces));
      }
    }
    if (merged > 0) stages.push_back(dense_stage(merged, ready));
    return agreed(std::move(stages));
  }

  /// Returns the stages of the run's exchanges. @param overlaps groups are cut for overlap.
  std::vector<ExchangeStage> sparse(bool overlaps) const {
    ExchangeRules rules = rules_;
    rules.fusion.overlaps = overlaps;
    const std::vector<std::size_t> groups = exchange_groups(rules, question_.buckets);
    std::vector<ExchangeStage> stages;
    std::array<std::optional<comm::Prediction>, 2> forms;  // dense, sparse
    std::size_t tensor = 0;
    for (std::size_t i = 0; i < question_.buckets.size(); ++i) {
      if (i == 0 || groups[i] != groups[i - 1]) stages.emplace_back();
      const Bucket& bucket = question_.buckets[i];
      const bool is_sparse = bucket.sparse && costs_.tensors[tensor++].is_sparse;
      stages.back().ready = ready_of(i);
      stages.back().local_seconds += local_seconds(bucket.size, is_sparse);
      std::optional<comm::Prediction>& form = forms[is_sparse ? 1 : 0];
      const comm::Prediction cost = predict(bucket.size, is_sparse);
      form = form ? form->fuse_with(cost) : cost;
      if (i + 1 < groups.size() && groups[i + 1] == groups[i]) continue;
      for (std::optional<comm::Prediction>& travelled : forms) {
        if (travelled) stages.back().messages.follow_with(*travelled);
        travelled.reset();
      }
    }
    return agreed(std::move(stages));
  }

  /// Returns the stages with everything that is sparsified in one bucket.
  std::vector<ExchangeStage> one_bucket() const {
    std::size_t sparse = 0, dense = 0;
    for (const Bucket& bucket : question_.buckets) (bucket.sparse ? sparse : dense) += bucket.size;
    std::vector<ExchangeStage> stages{{1, local_seconds(sparse, true), predict(sparse, true)}};
    if (dense > 0) stages.push_back(dense_stage(dense, 1));
    return agreed(std::move(stages));
  }

 private:
  double ready_of(std::size_t bucket) const { return question_.ready.empty() ? 1 : question_.ready[bucket]; }
  double local_seconds(std::size_t numel, bool is_sparse) const {
    return is_sparse ? curve_.encode_seconds(numel) + curve_.decode_seconds(numel) : curve_.dense_seconds(numel);
  }
  comm::Prediction predict(std::size_t numel, bool is_sparse) const {
    return predict_bucket(rules_, numel, is_sparse ? ExchangeForm::kSparse : ExchangeForm::kDense, costs_.density,
                          question_.world_size, question_.counts);
  }
  ExchangeStage dense_stage(std::size_t numel, double ready) const {
    return {ready, local_seconds(numel, false), predict(numel, false)};
  }
  std::vector<ExchangeStage> agreed(std::vector<ExchangeStage> stages) const {
    stages.push_back({.messages = {.header = comm::agreed_word_chain(question_.world_size)}});
    return stages;
  }

  const SelectionQuestion& question_;
  const DensityCosts& costs_;
  const CostCurve& curve_;
  const ExchangeRules& rules_;
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

}  // namespace

StepAdvice advise(const SelectionQuestion& question, const comm::NetworkModel& network, const DensityCosts& costs,
                  const CostCurve& curve, std::optional<double> backward_seconds) {
  const Ways ways(question, costs, curve);
  const auto dense = ways.dense(), sparse = ways.sparse(question.overlaps);
  // If everything is left dense, break-even is that of sparsifying everything.
  DensityCosts all_sparse = costs;
  for (TensorCost& tensor : all_sparse.tensors) tensor.is_sparse = true;
  const bool is_dense = std::ranges::count(costs.tensors, true, &TensorCost::is_sparse) == 0;
  const auto compared = is_dense ? Ways(question, all_sparse, curve).sparse(question.overlaps) : sparse;
  const auto beside = question.overlaps ? backward_seconds : std::nullopt;
  const auto difference = [&](double gbps) {
    const auto other = comm::NetworkModel::from_units(network.latency_us(), gbps);
    return exposed_seconds(compared, other, beside) - exposed_seconds(dense, other, backward_seconds);
  };
  StepAdvice advice{.dense_seconds = exposed_seconds(dense, network, backward_seconds),
                    .sparse_seconds = exposed_seconds(sparse, network, beside),
                    .dense_overlaps = backward_seconds.has_value(),
                    .sparse_overlaps = beside.has_value()};
  // Sparse exchanges send less, so if they are faster anywhere, it is on slow networks.
  advice.break_even_gbps = break_even_gbps(network.gbps(), difference(network.gbps()) < 0, difference);
  advice.remedy_seconds = kClearly * advice.sparse_seconds;
  const auto consider = [&](const char* setting, double seconds) {
    if (seconds >= advice.remedy_seconds) return;
    advice.remedy = setting;
    advice.remedy_seconds = seconds;
  };
  const bool has_choice = std::ranges::count(question.buckets, true, &Bucket::sparse) > 1;
  if (has_choice) consider("compression.bucket = \"model\"", exposed_seconds(ways.one_bucket(), network));
  if (has_choice && !question.overlaps && backward_seconds)
    consider("compression.overlap = true", exposed_seconds(ways.sparse(/*overlaps=*/true), network, backward_seconds));
  if (advice.remedy.empty()) advice.remedy_seconds = 0;
  return advice;
}

}  // namespace dragonn::trainer

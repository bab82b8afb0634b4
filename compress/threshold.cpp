// SPDX-License-Identifier: MIT
#include "compress/threshold.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "kernels/gradient/select.h"

namespace dragonn::compress {

double normal_upper_quantile(double probability) {
  DRAGONN_CHECK(probability > 0 && probability <= 0.5, "the upper normal quantile of {}; expected (0, 0.5]",
                probability);
  double low = 0, high = 39;  // erfc(39 / sqrt(2)) is 0 in double
  for (;;) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) return low;
    (std::erfc(middle / std::numbers::sqrt2) / 2 >= probability ? low : high) = middle;
  }
}

SettingSpecs sample_settings() {
  return {
      SettingSpec::number("sample_ratio", 0.01, "share of the elements whose magnitudes are sampled for the threshold",
                          0, 1)
          .above_minimum(),
      SettingSpec::integer("sample_most", 1 << 20,
                           "largest sample by sample_ratio, in elements; sample_rank may need more", 1, 4294967295.0),
      SettingSpec::integer("sample_rank", 16,
                           "number of entries above the threshold that the sample must hold (the DGC code: 2)", 1,
                           1e6)};
}

SampleRules sample_rules(const Settings& settings) {
  return {.ratio = settings.number("sample_ratio"),
          .max = static_cast<std::size_t>(settings.integer("sample_most")),
          .minimum_rank = static_cast<std::size_t>(settings.integer("sample_rank"))};
}

kernels::PassRequest sampled_request(const SampleRules& rules, std::size_t numel, double density,
                                     const SelectContext& context, std::string_view purpose) {
  kernels::PassRequest request{
      .kind = kernels::PassRequest::Kind::kThreshold, .threshold = 0, .begin = 0, .end = numel};
  if (density >= 1.0 || numel == 0) return request;
  request.kind = kernels::PassRequest::Kind::kSampledThreshold;
  const auto elements = static_cast<double>(numel);
  const double share = std::min(std::ceil(rules.ratio * elements), static_cast<double>(rules.max));
  const double wanted = std::max(share, std::ceil(static_cast<double>(rules.minimum_rank) / density));
  kernels::SamplePlan& plan = request.sample;
  plan.key =
      stream_key(context.seed, purpose, {context.bucket, context.step, static_cast<std::uint64_t>(context.rank)});
  plan.stride = wanted >= elements ? 1 : static_cast<std::size_t>(elements / wanted);
  const auto size = static_cast<double>(kernels::sample_size(numel, plan));
  plan.rank = static_cast<std::size_t>(std::max(1.0, std::ceil(size * density)));
  return request;
}

kernels::PassRequest bounded_request(std::size_t numel, std::size_t count, const SelectContext& context,
                                     std::string_view purpose) {
  constexpr SampleRules kRules{.ratio = 0.01, .minimum_rank = 64};
  const double share = static_cast<double>(count) / static_cast<double>(std::max<std::size_t>(1, numel));
  kernels::PassRequest request = sampled_request(kRules, numel, share, context, purpose);
  if (request.sample.stride > 1) {
    // Four standard deviations of the number of sampled entries above the count-th magnitude.
    const auto rank = static_cast<double>(request.sample.rank);
    request.sample.rank += static_cast<std::size_t>(std::ceil(4 * std::sqrt(rank)));
  }
  return request;
}

CandidatePool::CandidatePool(std::size_t numel, const Device& device) : numel_(numel), pass_(device), scratch_(device) {
  pass_.reserve(numel);
  scratch_.reserve(numel);
}

void CandidatePool::gather(View<const float> acc, std::size_t max, const SelectContext& context,
                           std::string_view purpose) {
  kernels::examine(bounded_request(numel_, max + 1, context, purpose), acc, pass_);
  entries_ = &pass_.selected;
  bound_ = pass_.threshold;
  if (entries_->size() > max || bound_ <= 0) return;
  bound_ = kernels::magnitude_lower_bound(acc, max + 1, scratch_);
  kernels::select_threshold(acc, bound_, scratch_.candidates);
  entries_ = &scratch_.candidates;
}

std::size_t CandidatePool::count(float threshold) const {
  return threshold <= bound_ ? entries_->size() : kernels::count_threshold(*entries_, threshold);
}

void CandidatePool::select(View<const float> acc, float threshold, SparseVector& selected) const {
  if (threshold < bound_)
    kernels::select_threshold(acc, threshold, selected);
  else
    kernels::filter_threshold(*entries_, threshold, selected);
}

float CandidatePool::select_largest(std::size_t k, SparseVector& selected) {
  return kernels::keep_largest(*entries_, k, scratch_, selected);
}

ThresholdSearchResult search_threshold(const ThresholdSearchRules& rules, View<const float> acc, std::size_t k,
                                       float threshold, SparseVector& candidates, SparseVector& wider,
                                       SparseVector& selected) {
  const auto target = static_cast<double>(k);
  const double few = rules.too_few * target;
  const double many = rules.too_many * target;
  SparseVector* pool = &candidates;
  float pool_threshold = threshold;
  std::size_t count = candidates.size();
  ThresholdSearchResult result{.threshold = threshold};
  while (result.changes < rules.max_changes && result.threshold > 0) {
    const bool too_few = static_cast<double>(count) < few;
    const bool too_many = static_cast<double>(count) > many;
    if ((!too_few && !too_many) || (too_many && rules.stop_above)) break;
    result.threshold *= too_few ? rules.lower : rules.raise;
    ++result.changes;
    if (result.threshold < pool_threshold) {
      kernels::select_threshold(acc, result.threshold, wider);
      pool = &wider;
      pool_threshold = result.threshold;
    }
    count = kernels::count_threshold(*pool, result.threshold);
  }
  if (result.threshold == pool_threshold) {
    std::swap(*pool, selected);  // all of them reach it
  } else {
    kernels::filter_threshold(*pool, result.threshold, selected);
  }
  return result;
}

}  // namespace dragonn::compress

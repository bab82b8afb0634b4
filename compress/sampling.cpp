// SPDX-License-Identifier: MIT
#include "compress/sampling.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"

namespace dragonn::compress {

SettingSpecs sample_settings() {
  return {{.name = "sample_ratio",
           .default_value = 0.01,
           .help = "share of the elements whose magnitudes are sampled for the threshold",
           .minimum = 0,
           .maximum = 1,
           .exclusive_minimum = true},
          {.name = "sample_most",
           .default_value = std::int64_t{1} << 20,
           .help = "largest sample by sample_ratio, in elements; sample_rank may need more",
           .minimum = 1,
           .maximum = 4294967295.0},
          {.name = "sample_rank",
           .default_value = std::int64_t{16},
           .help = "number of entries above the threshold that the sample must hold (the DGC code: 2)",
           .minimum = 1,
           .maximum = 1e6}};
}

SampleRules sample_rules(const Settings& settings) {
  return {.ratio = settings.number("sample_ratio"),
          .most = static_cast<std::size_t>(settings.integer("sample_most")),
          .minimum_rank = static_cast<std::size_t>(settings.integer("sample_rank"))};
}

kernels::SamplePlan plan_sample(const SampleRules& rules, std::size_t numel, double density,
                                const SelectContext& context, std::string_view purpose) {
  const auto elements = static_cast<double>(numel);
  const double share = std::min(std::ceil(rules.ratio * elements), static_cast<double>(rules.most));
  const double wanted = std::max(share, std::ceil(static_cast<double>(rules.minimum_rank) / density));
  kernels::SamplePlan plan;
  plan.key =
      stream_key(context.seed, purpose, {context.bucket, context.step, static_cast<std::uint64_t>(context.rank)});
  plan.stride = wanted >= elements ? 1 : static_cast<std::size_t>(elements / wanted);
  const auto size = static_cast<double>(kernels::sample_size(numel, plan));
  plan.rank = static_cast<std::size_t>(std::max(1.0, std::ceil(size * density)));
  return plan;
}

kernels::PassRequest sampled_request(const SampleRules& rules, std::size_t numel, double density,
                                     const SelectContext& context, std::string_view purpose) {
  kernels::PassRequest request{
      .kind = kernels::PassRequest::Kind::kThreshold, .threshold = 0, .begin = 0, .end = numel};
  if (density >= 1.0 || numel == 0) return request;
  request.kind = kernels::PassRequest::Kind::kSampledThreshold;
  request.sample = plan_sample(rules, numel, density, context, purpose);
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

}  // namespace dragonn::compress

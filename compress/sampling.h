// SPDX-License-Identifier: MIT
/// Sampling: the size of the sample from which a threshold is estimated.
#pragma once

#include <cstddef>
#include <string_view>

#include "compress/sparsifier.h"
#include "kernels/gradient/magnitude_sample.h"

namespace dragonn::compress {

/// The size of a sample, relative and absolute. The relative error of the number of entries above the sampled threshold
/// is about 1 / sqrt(rank of the threshold in the sample).
struct SampleRules {
  double ratio = 0.01;                      ///< share of the elements
  std::size_t most = std::size_t{1} << 20;  ///< elements that the share asks for, at most
  std::size_t minimum_rank = 2;             ///< the sample is at least so large that the threshold has this rank in it
};

/// Declares the settings `sample_ratio`, `sample_most` and `sample_rank`, shared by the methods that sample.
SettingSpecs sample_settings();
SampleRules sample_rules(const Settings& settings);

/// Plans a sample from which the threshold of the `density` largest share of `numel` magnitudes is ranked: its
/// ceil(q * density)-th largest value, q being the sample's size. `purpose` and the context key the places.
kernels::SamplePlan plan_sample(const SampleRules& rules, std::size_t numel, double density,
                                const SelectContext& context, std::string_view purpose);

/// Returns the request for entries above a sampled threshold; all that are not zero if `density` is 1 or more.
kernels::PassRequest sampled_request(const SampleRules& rules, std::size_t numel, double density,
                                     const SelectContext& context, std::string_view purpose);

/// Returns the request for the candidates of an exact choice of the `count` largest (kernels::select_largest): entries
/// above a sampled bound that is all but always a little below the count-th magnitude.
kernels::PassRequest bounded_request(std::size_t numel, std::size_t count, const SelectContext& context,
                                     std::string_view purpose);

}  // namespace dragonn::compress

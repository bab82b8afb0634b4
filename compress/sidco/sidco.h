// SPDX-License-Identifier: MIT
/// SIDCo: a threshold from a fitted distribution, refined on what exceeds it. The variants differ in what they fit.
#pragma once

#include "compress/sparsifier.h"

namespace dragonn::compress {

enum class SidcoDistribution { kExponential, kGamma, kPareto };

/// What is fitted to all magnitudes, and what to those that exceed a threshold (exponential or Pareto).
struct SidcoFits {
  SidcoDistribution first = SidcoDistribution::kExponential;
  SidcoDistribution later = SidcoDistribution::kExponential;
};

/// The entry of a variant. Cost: a sweep for the moments, fused with the accumulation; one for the logarithms where a
/// gamma distribution is fitted; one for what exceeds the first threshold, or for the selection if there is one stage.
SparsifierEntry sidco_entry(const char* name, const char* summary, const SidcoFits& fits);

}  // namespace dragonn::compress

// SPDX-License-Identifier: MIT
/// SIDCo: a threshold from a fitted distribution, refined on the values that exceed it. The variants differ in their
/// fits.
#pragma once

#include "compress/sparsifier.h"

namespace dragonn::compress {

enum class SidcoDistribution { kExponential, kGamma, kPareto };

/// The fit to all magnitudes, and the one to those that exceed a threshold (exponential or Pareto).
struct SidcoFits {
  SidcoDistribution first = SidcoDistribution::kExponential;
  SidcoDistribution later = SidcoDistribution::kExponential;
};

/// Returns the entry of a variant. Cost: a sweep for the moments, fused with the accumulation; one for the logarithms
/// if a gamma distribution is fitted; one for the values that exceed the first threshold, or for the selection if there
/// is one stage.
SparsifierEntry sidco_entry(const char* name, const char* summary, const SidcoFits& fits);

}  // namespace dragonn::compress

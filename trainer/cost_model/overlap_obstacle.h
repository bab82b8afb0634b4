// SPDX-License-Identifier: MIT
/// Overlap obstacle: why a run cannot exchange gradients during backward.
#pragma once

#include <span>
#include <string>

#include "core/parameter.h"
#include "exchange/buckets.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// Returns why no bucket of the run can be exchanged before backward has ended, in words for the user; empty if one
/// can. @param buckets that are sent together, each group as one (group_slices).
std::string overlap_obstacle(const Config& config, const ParameterArena& arena,
                             std::span<const exchange::Bucket> buckets);

}  // namespace dragonn::trainer

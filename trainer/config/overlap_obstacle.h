// SPDX-License-Identifier: MIT
/// Overlap obstacle: the reason why a run cannot exchange gradients during backward.
#pragma once

#include <string>
#include <vector>

#include "core/parameter.h"
#include "trainer/config/config.h"
#include "trainer/exchange/buckets.h"

namespace dragonn::trainer {

/// Returns why no bucket of this run can be exchanged before backward has ended, in words for the user; empty if one
/// can.
std::string overlap_obstacle(const Config& config, const ParameterArena& arena, const std::vector<Bucket>& buckets);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// What keeps a run from exchanging gradients while backward goes on.
#pragma once

#include <string>
#include <vector>

#include "core/parameter.h"
#include "trainer/config/config.h"
#include "trainer/exchange/buckets.h"

namespace dragonn::trainer {

/// Why no bucket of this run can be exchanged before backward has ended, in words for the user; empty if one can.
std::string overlap_obstacle(const Config& config, const ParameterArena& arena, const std::vector<Bucket>& buckets);

}  // namespace dragonn::trainer

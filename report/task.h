// SPDX-License-Identifier: MIT
/// Task: what a run learns, so that qualities of different tasks are not compared unnoticed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run.h"

namespace dragonn::report {

/// Refuses runs of other models or data sets than the first run's. A run without a config passes.
/// @throws ConfigError naming the two runs and what differs.
void require_one_task(std::span<const Run> runs);

/// A warning for each other key of [model] and [data] that differs from the first run's, as a smaller test set does.
std::vector<std::string> task_warnings(std::span<const Run> runs);

}  // namespace dragonn::report

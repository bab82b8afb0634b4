// SPDX-License-Identifier: MIT
/// Task: the model and data of a run, so that results of different tasks are not compared unnoticed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run.h"

namespace dragonn::report {

/// Refuses runs whose model or data set differs from the first run's. A run without a config passes.
/// @throws ConfigError naming the two runs and the difference.
void require_one_task(std::span<const Run> runs);

/// Returns a warning for each other key of [model] and [data] that differs from the first run's, as a smaller test set
/// does.
std::vector<std::string> task_warnings(std::span<const Run> runs);

}  // namespace dragonn::report

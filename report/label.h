// SPDX-License-Identifier: MIT
/// Names of runs and groups that a reader can tell apart, and whether runs learn the same task.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run.h"

namespace dragonn::report {

/// Adds as many parent folders to names as it takes if folders share a name ("a/run", "b/run").
void name_apart(std::span<Run> runs);

/// Returns the name of a single run, or the common part of the names of a group's runs ("dgc-seed1", "dgc-seed2" ->
/// "dgc").
std::string group_label(std::span<const Run> runs);

/// Refuses runs whose model or data set differs from the first run's. A run without a config passes.
/// @throws ConfigError naming the two runs and the difference.
void require_one_task(std::span<const Run> runs);

/// Returns a warning for each other key of [model] and [data] that differs from the first run's, as a smaller test set
/// does.
std::vector<std::string> task_warnings(std::span<const Run> runs);

}  // namespace dragonn::report

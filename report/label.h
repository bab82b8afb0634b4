// SPDX-License-Identifier: MIT
/// Names of runs and groups that a reader can tell apart.
#pragma once

#include <span>
#include <string>

#include "report/run.h"

namespace dragonn::report {

/// Where folders share a name ("a/run", "b/run"), puts as many parent folders in front as it takes.
void name_apart(std::span<Run> runs);

/// The name of a single run, or what the names of a group's runs have in common ("dgc-seed1", "dgc-seed2" -> "dgc").
std::string group_label(std::span<const Run> runs);

}  // namespace dragonn::report

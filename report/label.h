// SPDX-License-Identifier: MIT
/// Label: names that tell runs and groups apart.
#pragma once

#include <span>
#include <string>

#include "report/run.h"

namespace dragonn::report {

/// Adds as many parent folders to names as it takes if folders share a name ("a/run", "b/run").
void name_apart(std::span<Run> runs);

/// Returns the name of a single run, or the common part of the names of a group's runs ("dgc-seed1", "dgc-seed2" ->
/// "dgc").
std::string group_label(std::span<const Run> runs);

}  // namespace dragonn::report

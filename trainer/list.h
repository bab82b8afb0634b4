// SPDX-License-Identifier: MIT
/// Every registered component, for `dragonn-train --list [KIND [NAME]]`.
#pragma once

#include <string>
#include <vector>

namespace dragonn::trainer {

/// The words by which `--list` knows a kind of component: "models", "methods", ... Their singulars are known, too.
std::vector<std::string> component_kinds();

/// Without words one line for each component, "kind name: summary", by kind, names ascending. With a kind its
/// components; with a name, too, that component's settings, source and traffic.
/// @throws ConfigError for an unknown kind or name, with the nearest and all valid ones.
std::string list_components(const std::vector<std::string>& words = {});

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Lists: the registered components, for `dragonn-train --list [KIND] [NAME]`.
#pragma once

#include <string>
#include <vector>

namespace dragonn::trainer {

/// Returns the words by which `--list` knows kinds of components: "models", "methods", ... Their singulars are known,
/// too.
std::vector<std::string> component_kinds();

/// Returns one line for each component, "kind name: summary", by kind, names ascending. With a kind, only its
/// components; with a name, too, or alone, that component's settings, source and traffic. A config's table stands for
/// the kinds that it chooses; one that chooses none has its keys listed.
/// @throws ConfigError for an unknown kind or name, with the nearest one.
std::string list_components(const std::vector<std::string>& words = {});

}  // namespace dragonn::trainer

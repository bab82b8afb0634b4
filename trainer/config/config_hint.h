// SPDX-License-Identifier: MIT
/// Hints: which name a user most likely meant, for errors about unknown keys, values and options.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dragonn::trainer {

/// The candidate that `name` most likely means: another word for it (lr: learning_rate, gpu: cuda), one of a similar
/// spelling, or one that contains it. Empty: none of them.
std::optional<std::string> likely_name(const std::string& name, const std::vector<std::string>& candidates);

/// The fixed key, "table.name", that `name` most likely means in whichever table; empty: none.
std::optional<std::string> likely_key(const std::string& name);

}  // namespace dragonn::trainer

// SPDX-License-Identifier: MIT
/// Hints: the name that a user most likely meant, for errors about unknown keys, values and options.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dragonn::trainer {

/// Returns the candidate that `name` most likely means: another word for it (lr: learning_rate, gpu: cuda), one of a
/// similar spelling, or one that contains it. Returns nothing if there is none.
std::optional<std::string> likely_name(const std::string& name, const std::vector<std::string>& candidates);

/// Returns the table that `name` most likely means: as likely_name, and a table that begins it (dataset: data).
std::optional<std::string> likely_table(const std::string& name, const std::vector<std::string>& tables);

/// Returns the fixed key, "table.name", that `name` most likely means in any table; nothing if there is none.
std::optional<std::string> likely_key(const std::string& name);

}  // namespace dragonn::trainer

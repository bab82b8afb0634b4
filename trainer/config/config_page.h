// SPDX-License-Identifier: MIT
/// Config pages: all keys of a config as a manual page and as words for completions.
#pragma once

#include <string>
#include <vector>

namespace dragonn::trainer {

/// Returns the manual page dragonn-train.toml(5): every key with meaning, type, range and default, then the settings of
/// all registered components.
std::string config_man_page();

/// Returns "table.key=" for every key and setting, and "table.key=word" for each word that a key takes.
std::vector<std::string> config_words();

}  // namespace dragonn::trainer

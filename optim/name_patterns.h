// SPDX-License-Identifier: MIT
/// Patterns of parameter names in settings: "*" stands for any characters, "?" for one, "[ab]" for one of these.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/parameter.h"

namespace dragonn::optim {

/// Returns the text without the blanks around it.
std::string_view trim(std::string_view text);
/// Returns the parts of "a, b, c", without the blanks around them. An empty text has none.
std::vector<std::string> split_list(std::string_view text);

/// Returns whether a name matches a pattern as a whole.
bool matches(const std::string& pattern, const std::string& name);

/// Checks a pattern. @param where "optimizer.KEY = VALUE", for the error.  @param matrices only tensors of two axes
/// count.  @throws ConfigError that lists valid names if the pattern matches none of the arena's parameters.
void require_match(const std::string& where, const std::string& pattern, const ParameterArena& arena,
                   bool matrices = false);

}  // namespace dragonn::optim

// SPDX-License-Identifier: MIT
/// Printable: text from outside, made safe for one line of a log or a terminal.
#pragma once

#include <string>
#include <string_view>

namespace dragonn {

/// Returns `text` with '?' for every control character: no outsider's text moves a cursor or begins a line of its own.
std::string printable(std::string_view text);

}  // namespace dragonn

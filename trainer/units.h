// SPDX-License-Identifier: MIT
/// Units: numbers and texts as a person reads them, for log lines, the progress line and lists.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dragonn::trainer {

/// "951 kB", "1.62 MB": three digits, units of 1000.
std::string bytes_text(double bytes);
/// "9.1 s", "2:03" (minutes), "1:02:03" (hours).
std::string seconds_text(double seconds);
/// "12 %"; "<1 %" of what is there and rounds to nothing. @param share of 1.
std::string percent_text(double share);

/// The text in lines of at most `columns`, broken at spaces; a longer word is a line of its own. Empty: no lines.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns);

}  // namespace dragonn::trainer

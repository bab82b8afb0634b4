// SPDX-License-Identifier: MIT
/// Numbers, networks and tables as text, the same in logs, reports and figures.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dragonn {

/// Returns three digits without an exponent: "1230", "12.3", "0.123".
std::string three_digits(double value);

/// Returns a bandwidth as text: "420 Mbit/s". @param gbps 10^9 bits per second.
std::string bandwidth_text(double gbps);
/// Returns a network as text: "888 Mbit/s, 436 us latency (1gbe)", or the preset's name if nothing more is known.
/// @param preset empty if there is none.
std::string network_text(std::optional<double> gbps, std::optional<double> latency_us, const std::string& preset = "");

/// Returns a number of bytes as text: "951 kB", "1.62 MB": three digits, units of 1000.
std::string bytes_text(double bytes);
/// Returns a duration as text: "31.2 s", of three digits, in us, ms, s, min or h.
std::string seconds_text(double seconds);
/// Returns a duration as a clock shows it: "9.1 s", "2:03" (minutes), "1:02:03" (hours).
std::string elapsed_text(double seconds);
/// Returns a share as text: "12 %"; "<1 %" for a positive share that rounds to nothing. @param share of 1.
std::string percent_text(double share);
/// Returns a ratio as "12.3x".
std::string ratio_text(double ratio);

/// Returns the number of characters of UTF-8 text, as a terminal counts columns.
std::size_t width(std::string_view text);

/// Breaks a text at spaces into lines of at most `columns`; a longer word is a line of its own. Returns no lines for an
/// empty text.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

/// Returns the lines of a table, whose columns are two blanks apart. Wider lines than `max_width` are avoided by
/// cutting the texts of the first column, to 8 characters at least.
/// @param alignment of each column: '<' to the left, as texts; '>' to the right, as numbers.
std::vector<std::string> table_lines(std::vector<std::vector<std::string>> rows, std::string_view alignment,
                                     std::size_t max_width = std::string_view::npos);

}  // namespace dragonn

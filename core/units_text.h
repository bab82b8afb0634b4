// SPDX-License-Identifier: MIT
/// Numbers and networks as texts, the same in logs, reports and figures.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dragonn {

/// Three digits without an exponent: "1230", "12.3", "0.123".
std::string three_digits(double value);
/// "1.07 MB": in the largest unit that leaves at least 1. @param units each a factor of 1000 above the one before.
std::string in_units(double value, std::span<const std::string_view> units);

/// "420 Mbit/s". @param gbps 10^9 bits per second.
std::string bandwidth_text(double gbps);
/// "888 Mbit/s, 436 us latency (1gbe)", or the preset's name where nothing more is known.
/// @param preset "" without one.
std::string network_text(std::optional<double> gbps, std::optional<double> latency_us, const std::string& preset = "");

/// "951 kB", "1.62 MB": three digits, units of 1000.
std::string bytes_text(double bytes);
/// "9.1 s", "2:03" (minutes), "1:02:03" (hours).
std::string seconds_text(double seconds);
/// "12 %"; "<1 %" of what is there and rounds to nothing. @param share of 1.
std::string percent_text(double share);

/// The text in lines of at most `columns`, broken at spaces; a longer word is a line of its own. Empty: no lines.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns);

}  // namespace dragonn
